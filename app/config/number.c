#include "app/config/number.h"

#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/status.h"

#define EXACT_MAX 9007199254740992.0 // 2^53: below it every whole number is a double

/* Enters the C locale, where the decimal point is a point; leave_c_locale() takes what
 * this returned. */
struct locale_change {
    locale_t c, previous;
};

static struct locale_change enter_c_locale(void)
{
    struct locale_change change;
    change.c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    CHECK(change.c != (locale_t)0, "no C locale");
    change.previous = uselocale(change.c);
    return change;
}

static void leave_c_locale(struct locale_change change)
{
    uselocale(change.previous);
    freelocale(change.c);
}

/* True for [sign] digits [. digits] [e [sign] digits], with a digit before the e. */
static int is_decimal(const char *text)
{
    text += *text == '+' || *text == '-';
    size_t whole = strspn(text, "0123456789");
    text += whole;
    size_t fraction = 0;
    if (*text == '.') {
        fraction = strspn(text + 1, "0123456789");
        text += 1 + fraction;
    }
    if (whole + fraction == 0)
        return 0;
    if (*text == 'e' || *text == 'E') {
        text += 1;
        text += *text == '+' || *text == '-';
        size_t exponent = strspn(text, "0123456789");
        if (exponent == 0)
            return 0;
        text += exponent;
    }
    return *text == '\0';
}

enum number_error number_read(const char *text, double *value)
{
    if (!is_decimal(text))
        return NUMBER_NOT_A_NUMBER;
    struct locale_change change = enter_c_locale();
    *value = strtod(text, NULL);
    leave_c_locale(change);
    return fabs(*value) <= DBL_MAX ? NUMBER_OK : NUMBER_TOO_LARGE;
}

enum number_error number_read_whole(const char *text, int64_t *value)
{
    double real;
    enum number_error error = number_read(text, &real);
    if (error != NUMBER_OK)
        return error;
    if (strcspn(text, ".eE") == strlen(text)) {
        errno = 0;
        *value = strtoll(text, NULL, 10);
        return errno == ERANGE ? NUMBER_TOO_LARGE : NUMBER_OK;
    }
    if (real != trunc(real))
        return NUMBER_NOT_WHOLE;
    if (fabs(real) > EXACT_MAX)
        return NUMBER_TOO_LARGE;
    *value = (int64_t)real;
    return NUMBER_OK;
}

enum number_error number_read_grid(const char *text, int64_t sides[2])
{
    char columns[NUMBER_TEXT];
    size_t length = strcspn(text, "xX");
    if (text[length] == '\0' || length >= sizeof columns)
        return NUMBER_NOT_A_NUMBER;
    snprintf(columns, sizeof columns, "%.*s", (int)length, text);
    const char *const words[] = {columns, text + length + 1};
    enum number_error worst = NUMBER_OK;
    for (int i = 0; i < 2; i++) {
        enum number_error error = number_read_whole(words[i], &sides[i]);
        if (error == NUMBER_NOT_A_NUMBER || error == NUMBER_NOT_WHOLE)
            return NUMBER_NOT_A_NUMBER;
        worst = error > worst ? error : worst;
    }
    return worst;
}

const char *number_problem(enum number_error error)
{
    switch (error) {
    case NUMBER_NOT_A_NUMBER: return "is not a number";
    case NUMBER_NOT_WHOLE: return "is not a whole number";
    default: return "is out of range";
    }
}

/* "1e-08" reads better as "1e-8", and "1e+06" as "1e6". */
static void trim_exponent(char *text)
{
    char *exponent = strchr(text, 'e');
    if (!exponent)
        return;
    char *to = exponent + 1, *from = exponent + 1;
    if (*from == '-')
        to++;
    from++;
    from += strspn(from, "0");
    memmove(to, from, strlen(from) + 1);
}

// Seventeen digits always suffice (IEEE 754 double); most numbers need few.
static void print_shortest(double value, char text[NUMBER_TEXT])
{
    char digits[NUMBER_TEXT];
    for (int count = 1; count <= 17; count++) {
        snprintf(digits, sizeof digits, "%.*g", count, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    trim_exponent(digits);
    memcpy(text, digits, sizeof digits);
}

const char *number_text(double value, char text[NUMBER_TEXT])
{
    CHECK(fabs(value) <= DBL_MAX, "a number to print is not finite");
    struct locale_change change = enter_c_locale();
    if (value == trunc(value) && fabs(value) < 1e6)
        snprintf(text, NUMBER_TEXT, "%.0f", value);
    else
        print_shortest(value, text);
    leave_c_locale(change);
    return text;
}
