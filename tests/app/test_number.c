/* Numbers: what is read, what is refused, and that text and number are each other's
 * inverse. */
#include "app/config/number.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"
#include "tests/support/support.h"

static void test_decimal_text_becomes_a_number(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } rows[] = {
        {"0", 0.0},     {"3", 3.0},   {"-2.5", -2.5},     {"+7", 7.0},
        {"1e-4", 1e-4}, {".5", 0.5},  {"5.", 5.0},        {"2E5", 2e5},
        {"1e+3", 1e3},  {"007", 7.0}, {"1.7e38", 1.7e38}, {"4.9e-324", 4.9e-324},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double value = NAN;
        assert_int_equal(number_read(rows[i].text, &value), NUMBER_OK);
        assert_true(value == rows[i].value);
    }
}

static void test_text_that_strtod_would_take_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",   " ",   " 1", "1 ", "12abc", "0x10", "inf", "-inf",  "nan", "NaN(1)",
        "1e", "1e+", "e5", ".",  "-",     "+-1",  "1,5", "1.2.3", "--1", "1_000",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        double value;
        if (number_read(texts[i], &value) != NUMBER_NOT_A_NUMBER)
            fail_msg("\"%s\" was read as %g", texts[i], value);
    }
    double value;
    assert_int_equal(number_read("1e999", &value), NUMBER_TOO_LARGE);
}

static void
test_a_whole_number_may_be_written_with_an_exponent_if_it_is_exact(void **state)
{
    (void)state;
    int64_t value;
    assert_int_equal(number_read_whole("2e5", &value), NUMBER_OK);
    assert_int_equal(value, 200000);
    assert_int_equal(number_read_whole("64.0", &value), NUMBER_OK);
    assert_int_equal(value, 64);
    assert_int_equal(number_read_whole("1.5e1", &value), NUMBER_OK);
    assert_int_equal(value, 15);
    assert_int_equal(number_read_whole("9223372036854775807", &value), NUMBER_OK);
    assert_true(value == INT64_MAX);

    assert_int_equal(number_read_whole("2.5", &value), NUMBER_NOT_WHOLE);
    assert_int_equal(number_read_whole("1e-3", &value), NUMBER_NOT_WHOLE);
    assert_int_equal(number_read_whole("9223372036854775808", &value), NUMBER_TOO_LARGE);
    assert_int_equal(number_read_whole("1e16", &value), NUMBER_TOO_LARGE);
    assert_int_equal(number_read_whole("12abc", &value), NUMBER_NOT_A_NUMBER);
}

static void test_a_number_is_printed_as_a_person_would_write_it(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {0.0, "0"},
        {2e-4, "0.0002"},
        {1e-8, "1e-8"},
        {65536.0, "65536"},
        {0.5, "0.5"},
        {300.0, "300"},
        {1e8, "1e8"},
        {0.064, "0.064"},
        {-1.25, "-1.25"},
        {1.7e38, "1.7e38"},
        {0.1 + 0.2, "0.30000000000000004"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[NUMBER_TEXT];
        assert_string_equal(number_text(rows[i].value, text), rows[i].text);
    }
}

static void test_every_printed_number_is_read_back_bit_for_bit(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        struct philox_words random = philox(7, STREAM_INIT, 0, i);
        uint64_t bits = ((uint64_t)random.word[0] << 32) | random.word[1];
        double value, back = 0.0;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        char text[NUMBER_TEXT];
        assert_int_equal(number_read(number_text(value, text), &back), NUMBER_OK);
        assert_memory_equal(&back, &value, sizeof value);
    }
}

// A locale with a decimal comma is rarely installed: one is made for the test.
static void test_a_locale_with_a_decimal_comma_changes_nothing(void **state)
{
    (void)state;
    char output[512];
    const char *folder = make_folder("locale");
    if (run_command(output, sizeof output, "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8'",
                    folder) != 0) {
        remove_folder(folder);
        skip_because("no localedef here: %s", output);
    }
    setenv("LOCPATH", folder, 1);
    int has_comma =
        setlocale(LC_ALL, "de_DE.UTF-8") && localeconv()->decimal_point[0] == ',';
    double value = 0.0;
    char text[NUMBER_TEXT] = "";
    enum number_error error = number_read("2.5", &value);
    number_text(0.25, text);
    enum number_error comma_error = number_read("2,5", &value);
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    remove_folder(folder);

    assert_true(has_comma);
    assert_int_equal(error, NUMBER_OK);
    assert_true(value == 2.5);
    assert_string_equal(text, "0.25");
    assert_int_equal(comma_error, NUMBER_NOT_A_NUMBER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decimal_text_becomes_a_number),
        cmocka_unit_test(test_text_that_strtod_would_take_is_refused),
        cmocka_unit_test(
            test_a_whole_number_may_be_written_with_an_exponent_if_it_is_exact),
        cmocka_unit_test(test_a_number_is_printed_as_a_person_would_write_it),
        cmocka_unit_test(test_every_printed_number_is_read_back_bit_for_bit),
        cmocka_unit_test(test_a_locale_with_a_decimal_comma_changes_nothing),
    };
    return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
