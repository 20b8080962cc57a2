#include "kernels/base/text.h"

#include <math.h>
#include <stdio.h>

const char *duration_text(double seconds, char *text, size_t bytes)
{
    if (!(seconds >= 0.0) || isinf(seconds)) {
        snprintf(text, bytes, "?");
        return text;
    }
    // A day count of seven digits says "never" as well as any.
    long long s = llround(fmin(seconds, 86400.0 * 9999999.0));
    if (s < 60)
        snprintf(text, bytes, "%llds", s);
    else if (s < 3600)
        snprintf(text, bytes, "%lldm %02llds", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text, bytes, "%lldh %02lldm %02llds", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, bytes, "%lldd %02lldh", s / 86400, s / 3600 % 24);
    return text;
}

const char *scale_text(float scale, char *text, size_t bytes)
{
    int exponent;
    if (isfinite(scale) && frexpf(scale, &exponent) == 0.5f)
        snprintf(text, bytes, "2^%d", exponent - 1);
    else if (isnan(scale)) // its sign means nothing
        snprintf(text, bytes, "nan");
    else
        snprintf(text, bytes, "%.4g", (double)scale);
    return text;
}

const char *count_text(int64_t count, char *text, size_t bytes)
{
    char digits[24], grouped[32];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)count);
    int first = count < 0, used = 0;
    for (int i = 0; i < length; i++) {
        if (i > first && (length - i) % 3 == 0)
            grouped[used++] = ',';
        grouped[used++] = digits[i];
    }
    grouped[used] = '\0';
    snprintf(text, bytes, "%s", grouped);
    return text;
}

const char *rate_text(double rate, char *text, size_t bytes)
{
    if (!isfinite(rate))
        snprintf(text, bytes, "?");
    else if (fabs(rate) < 99.95)
        snprintf(text, bytes, "%.1f", rate);
    else
        count_text(llround(fmin(rate, 1e15)), text, bytes);
    return text;
}
