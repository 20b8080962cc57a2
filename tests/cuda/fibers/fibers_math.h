/* fibers_math.h - what CUDA's device functions are on a CPU: atomics, loads,
 * conversions, arithmetic. Included by fibers.h alone.
 *
 * Fast approximations (__expf and the like) are the exact functions here: what a GPU
 * makes of them is its own matter, within the bounds that CUDA documents. */
#ifndef TESTS_CUDA_FIBERS_FIBERS_MATH_H
#define TESTS_CUDA_FIBERS_FIBERS_MATH_H

#include <math.h>
#include <stdlib.h>

#include <cmath>

using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

/* ---- atomics: fibers never interrupt each other ---------------------------------- */

namespace fibers
{

// The second argument is converted to the first one's type, as CUDA's overloads do.
template <class T> struct same {
    using type = T;
};
template <class T> using as = typename same<T>::type;

template <class T> T replace(T *place, T value)
{
    T old = *place;
    *place = value;
    return old;
}

} // namespace fibers

template <class T> T atomicExch(T *place, fibers::as<T> value)
{
    return fibers::replace(place, value);
}

template <class T> T atomicAdd(T *place, fibers::as<T> value)
{
    return fibers::replace(place, static_cast<T>(*place + value));
}

template <class T> T atomicSub(T *place, fibers::as<T> value)
{
    return fibers::replace(place, static_cast<T>(*place - value));
}

template <class T> T atomicMin(T *place, fibers::as<T> value)
{
    return fibers::replace(place, value < *place ? value : *place);
}

template <class T> T atomicMax(T *place, fibers::as<T> value)
{
    return fibers::replace(place, value > *place ? value : *place);
}

template <class T> T atomicAnd(T *place, fibers::as<T> value)
{
    return fibers::replace(place, static_cast<T>(*place & value));
}

template <class T> T atomicOr(T *place, fibers::as<T> value)
{
    return fibers::replace(place, static_cast<T>(*place | value));
}

template <class T> T atomicXor(T *place, fibers::as<T> value)
{
    return fibers::replace(place, static_cast<T>(*place ^ value));
}

template <class T> T atomicCAS(T *place, fibers::as<T> compared, fibers::as<T> value)
{
    return fibers::replace(place, *place == compared ? value : *place);
}

inline unsigned atomicInc(unsigned *place, unsigned last)
{
    return fibers::replace(place, *place >= last ? 0u : *place + 1u);
}

/* ---- memory ---------------------------------------------------------------------- */

template <class T> T __ldg(const T *place)
{
    return *place;
}

template <class T> T __ldcg(const T *place)
{
    return *place;
}

template <class T> T __ldcs(const T *place)
{
    return *place;
}

template <class T> void __stcg(T *place, fibers::as<T> value)
{
    *place = value;
}

template <class T> void __stcs(T *place, fibers::as<T> value)
{
    *place = value;
}

inline void __threadfence()
{
}

inline void __threadfence_block()
{
}

inline void __threadfence_system()
{
}

inline void __trap(FIBERS_PLACE)
{
    fibers::stop("__trap() was called", FIBERS_SITE);
}

/* ---- bits ------------------------------------------------------------------------ */

namespace fibers
{

template <class To, class From> To bits_of(From value)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits in another type");
    To bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

} // namespace fibers

inline int __float_as_int(float value)
{
    return fibers::bits_of<int>(value);
}

inline unsigned __float_as_uint(float value)
{
    return fibers::bits_of<unsigned>(value);
}

inline float __int_as_float(int bits)
{
    return fibers::bits_of<float>(bits);
}

inline float __uint_as_float(unsigned bits)
{
    return fibers::bits_of<float>(bits);
}

inline long long __double_as_longlong(double value)
{
    return fibers::bits_of<long long>(value);
}

inline double __longlong_as_double(long long bits)
{
    return fibers::bits_of<double>(bits);
}

inline int __popc(unsigned bits)
{
    return __builtin_popcount(bits);
}

inline int __popcll(unsigned long long bits)
{
    return __builtin_popcountll(bits);
}

inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}

inline int __clz(int bits)
{
    return bits ? __builtin_clz(static_cast<unsigned>(bits)) : 32;
}

inline int __clzll(long long bits)
{
    return bits ? __builtin_clzll(static_cast<unsigned long long>(bits)) : 64;
}

inline unsigned __brev(unsigned bits)
{
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (bits >> i & 1u) << (31 - i);
    return reversed;
}

inline unsigned __umulhi(unsigned a, unsigned b)
{
    return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}

inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    __extension__ using wide = unsigned __int128;
    return static_cast<unsigned long long>(static_cast<wide>(a) * b >> 64);
}

/* ---- arithmetic ------------------------------------------------------------------ */

/* CUDA's min and max: of two floats the one that is a number, of mixed integers the
 * common type's. */
template <class A, class B> std::common_type_t<A, B> min(A a, B b)
{
    using T = std::common_type_t<A, B>;
    T x = static_cast<T>(a), y = static_cast<T>(b);
    if constexpr (std::is_floating_point_v<T>)
        return std::fmin(x, y);
    else
        return y < x ? y : x;
}

template <class A, class B> std::common_type_t<A, B> max(A a, B b)
{
    using T = std::common_type_t<A, B>;
    T x = static_cast<T>(a), y = static_cast<T>(b);
    if constexpr (std::is_floating_point_v<T>)
        return std::fmax(x, y);
    else
        return x < y ? y : x;
}

namespace fibers
{

inline float inverse_root(float x)
{
    return static_cast<float>(1.0 / sqrt(static_cast<double>(x)));
}

inline double inverse_root(double x)
{
    return 1.0 / sqrt(x);
}

// Of pi*x; the remainder is exact, so that a large x costs nothing.
template <class T> T sine_of_pi(T x)
{
    return static_cast<T>(sin(M_PI * fmod(static_cast<double>(x), 2.0)));
}

template <class T> T cosine_of_pi(T x)
{
    return static_cast<T>(cos(M_PI * fmod(static_cast<double>(x), 2.0)));
}

template <class T> void both_of_pi(T x, T *sine, T *cosine)
{
    *sine = sine_of_pi(x);
    *cosine = cosine_of_pi(x);
}

} // namespace fibers

// Macros, since C libraries have functions of some of these names.
#define rsqrtf(x) fibers::inverse_root(static_cast<float>(x))
#define rsqrt(x) fibers::inverse_root(x)
#define sinpif(x) fibers::sine_of_pi(static_cast<float>(x))
#define cospif(x) fibers::cosine_of_pi(static_cast<float>(x))
#define sinpi(x) fibers::sine_of_pi(static_cast<double>(x))
#define cospi(x) fibers::cosine_of_pi(static_cast<double>(x))
#define sincospif(x, sine, cosine) fibers::both_of_pi<float>(x, sine, cosine)
#define sincospi(x, sine, cosine) fibers::both_of_pi<double>(x, sine, cosine)
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.0f, x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __tanhf(x) tanhf(x)
#define __powf(x, y) powf(x, y)
#define __sincosf(x, sine, cosine) sincosf(x, sine, cosine)

inline float __saturatef(float x)
{
    return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; // NaN becomes 0
}

// name(a, b): one operation of type T, rounded by itself.
#define FIBERS_BINARY(T, name, exact) \
    inline T name(T a, T b)           \
    {                                 \
        return exact;                 \
    }
FIBERS_BINARY(float, __fadd_rn, a + b)
FIBERS_BINARY(float, __fsub_rn, a - b)
FIBERS_BINARY(float, __fmul_rn, a *b)
FIBERS_BINARY(float, __fdiv_rn, a / b)
FIBERS_BINARY(float, __fdividef, a / b)
FIBERS_BINARY(double, __dadd_rn, a + b)
FIBERS_BINARY(double, __dsub_rn, a - b)
FIBERS_BINARY(double, __dmul_rn, a *b)
FIBERS_BINARY(double, __ddiv_rn, a / b)
#undef FIBERS_BINARY

inline float __frcp_rn(float x)
{
    return 1.0f / x;
}

inline float __fsqrt_rn(float x)
{
    return sqrtf(x);
}

inline float __frsqrt_rn(float x)
{
    return fibers::inverse_root(x);
}

inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}

inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}

inline double __dsqrt_rn(double x)
{
    return sqrt(x);
}

/* ---- conversions: out of range they saturate, NaN becomes 0 ---------------------- */

namespace fibers
{

template <class Integer> Integer to_integer(double whole)
{
    constexpr double lowest =
        static_cast<double>(std::is_signed_v<Integer> ? -2147483648.0 : 0.0);
    constexpr double highest = std::is_signed_v<Integer> ? 2147483647.0 : 4294967295.0;
    if (isnan(whole))
        return 0;
    return static_cast<Integer>(whole < lowest    ? lowest
                                : whole > highest ? highest
                                                  : whole);
}

} // namespace fibers

// __float2int_SUFFIX and its sisters, which round with `how`.
#define FIBERS_CONVERT(suffix, how)                                       \
    inline int __float2int_##suffix(float x)                              \
    {                                                                     \
        return fibers::to_integer<int>(how(static_cast<double>(x)));      \
    }                                                                     \
    inline unsigned __float2uint_##suffix(float x)                        \
    {                                                                     \
        return fibers::to_integer<unsigned>(how(static_cast<double>(x))); \
    }                                                                     \
    inline int __double2int_##suffix(double x)                            \
    {                                                                     \
        return fibers::to_integer<int>(how(x));                           \
    }
FIBERS_CONVERT(rn, nearbyint)
FIBERS_CONVERT(rz, trunc)
FIBERS_CONVERT(rd, floor)
FIBERS_CONVERT(ru, ceil)
#undef FIBERS_CONVERT

inline float __int2float_rn(int x)
{
    return static_cast<float>(x);
}

inline float __uint2float_rn(unsigned x)
{
    return static_cast<float>(x);
}

inline float __double2float_rn(double x)
{
    return static_cast<float>(x);
}

#endif
