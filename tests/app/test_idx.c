#include "tests/app/data_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/philox.h"
#include "tests/app/make_png.h"

static void test_an_idx_file_keeps_its_bytes(void **state)
{
    (void)state;
    size_t size;
    uint8_t *idx = make_idx(6, 28, 28, &size);
    write_file(in("train-images-idx3-ubyte"), idx, size);
    struct dataset *dataset = opened(in("train-images-idx3-ubyte"), options_of(28, 0));
    assert_int_equal(dataset->count, 6);
    assert_int_equal(dataset->channels, 1);
    assert_memory_equal(dataset->pixels, idx + 16, 6 * 28 * 28);
    assert_null(dataset->files);
    assert_int_equal(dataset->size_count, 1);
    assert_int_equal(dataset->sizes[0].width, 28);
    dataset_close(dataset);
    free(idx);
}

static void test_idx_is_found_in_a_folder_plain_or_gzip_under_any_name(void **state)
{
    (void)state;
    size_t size;
    uint8_t *idx = make_idx(5, 14, 10, &size);
    write_file(in("train-images-idx3-ubyte"), idx, size);
    shell("gzip \"$1\"", in("train-images-idx3-ubyte"));
    struct dataset *plain, *packed = opened(folder, options_of(28, 0));
    assert_string_equal(packed->source, in("train-images-idx3-ubyte.gz"));
    shell("gunzip -c \"$1\" > \"$2/train-images.idx3-ubyte\" && rm \"$1\"",
          in("train-images-idx3-ubyte.gz"));
    plain = opened(folder, options_of(28, 0));
    assert_string_equal(plain->source, in("train-images.idx3-ubyte"));
    assert_int_equal(plain->digest, packed->digest);
    assert_int_equal(plain->count, 5);
    assert_memory_equal(plain->pixels, packed->pixels, 5 * 28 * 28);
    assert_int_equal(plain->sizes[0].width, 10);
    assert_int_equal(plain->sizes[0].height, 14);
    dataset_close(plain);
    dataset_close(packed);
    assert_int_equal(rename(in("train-images.idx3-ubyte"), in("anything.png")), 0);
    plain = opened(in("anything.png"), options_of(28, 3));
    assert_int_equal(plain->count, 5);
    assert_int_equal(plain->channels, 3);
    dataset_close(plain);
    free(idx);
}

// It is read a mebibyte at a time, more and more.
static void test_a_large_idx_file_is_read_to_its_last_byte(void **state)
{
    (void)state;
    size_t size;
    uint8_t *idx = make_idx(6000, 28, 28, &size);
    write_file(in("images"), idx, size);
    struct dataset *dataset = opened(in("images"), options_of(28, 1));
    assert_int_equal(dataset->count, 6000);
    assert_memory_equal(dataset->pixels, idx + 16, size - 16);
    dataset_close(dataset);
    free(idx);
}

static void put_be(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void test_every_wrong_idx_file_gets_its_sentence(void **state)
{
    (void)state;
    static const struct {
        uint32_t header[4];
        size_t kept;
        const char *part;
    } cases[] = {
        {{0x803, 3, 8, 8}, 0, "the file is empty"},
        {{0x803, 3, 8, 8}, 7, "ends within its header, after 7 of 16 bytes"},
        {{0x803, 3, 8, 8}, 16, "3 images of 8 x 8 pixels, the file ends within image 1"},
        {{0x803, 3, 8, 8}, 16 + 191, "ends within image 3"},
        {{0x801, 3, 8, 8}, 208, "a file of labels (IDX magic 0x00000801)"},
        {{0xd03, 3, 8, 8}, 208, "32-bit floats in 3 dimensions (magic 0x00000d03)"},
        {{0x804, 3, 8, 8}, 208, "bytes in 4 dimensions (magic 0x00000804)"},
        {{0x803, 0, 8, 8}, 208, "0 images"},
        {{0x803, 3, 0, 8}, 208, "images of 8 x 0 pixels"},
        {{0x803, 3, 8, 5000}, 208, "sides of 1 to 4096"},
        {{0x803, 0xffffffff, 8, 8}, 208, "more than 64 GB"},
        {{0x803, 0x0fffffff, 8, 8}, 208, "ends within image 4"},
    };
    size_t size;
    uint8_t *idx = make_idx(3, 8, 8, &size);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int word = 0; word < 4; word++)
            put_be(idx + 4 * word, cases[i].header[word]);
        write_file(in("images"), idx, cases[i].kept);
        expect_data_error(in("images"), cases[i].part);
    }
    free(idx);
}

static void test_a_damaged_gzip_file_gets_its_sentence(void **state)
{
    (void)state;
    size_t size;
    uint8_t *idx = make_idx(300, 28, 28, &size);
    write_file(in("images"), idx, size);
    shell("gzip \"$1\"", in("images"));
    shell("head -c -300 \"$1\" > \"$2/cut\"", in("images.gz"));
    expect_data_error(in("cut"), "the gzip data is damaged or cut short");
    // The checksum is behind the last pixel, where nothing but a check of it arrives.
    shell("head -c -8 \"$1\" > \"$2/sum\"; printf abcdefgh >> \"$2/sum\"",
          in("images.gz"));
    expect_data_error(in("sum"), "the gzip data is damaged or cut short");
    shell("echo 'no images here' | gzip > \"$1\"", in("text.gz"));
    expect_data_error(in("text.gz"), "text in gzip, such as CSV, and not images");
    free(idx);
}

static void
test_thousands_of_damaged_idx_files_give_a_data_set_or_a_sentence(void **state)
{
    (void)state;
    size_t size;
    uint8_t *idx = make_idx(4, 5, 6, &size);
    struct dataset_options options = options_of(8, 0);
    options.threads = 1;
    int refused = 0;
    for (uint64_t round = 0; round < 3000; round++) {
        uint8_t copy[16 + 4 * 5 * 6];
        memcpy(copy, idx, sizeof copy);
        struct philox_words random = philox(3, 100, round, 0);
        copy[random.word[0] % 16] = (uint8_t)random.word[1];
        size_t kept = random.word[2] % 4 ? sizeof copy : random.word[3] % sizeof copy;
        write_file(in("images"), copy, kept);
        struct dataset *dataset;
        enum status status = dataset_open(in("images"), &options, &dataset);
        assert_true(status == STATUS_OK || status == STATUS_DATA);
        assert_true((status == STATUS_OK) == (dataset != NULL));
        refused += status == STATUS_DATA;
        dataset_close(dataset);
    }
    assert_in_range(refused, 1000, 2990);
    free(idx);
}

static void
test_thousands_of_damaged_gzip_files_give_a_data_set_or_a_sentence(void **state)
{
    (void)state;
    size_t size;
    uint8_t *idx = make_idx(4, 5, 6, &size), packed[400];
    write_file(in("images"), idx, size);
    shell("gzip \"$1\"", in("images"));
    FILE *file = fopen(in("images.gz"), "rb");
    size_t packed_size = fread(packed, 1, sizeof packed, file);
    fclose(file);
    assert_in_range(packed_size, 60, sizeof packed - 1);
    struct dataset_options options = options_of(5, 0);
    options.threads = 1;
    int refused = 0;
    for (uint64_t round = 0; round < 2000; round++) {
        uint8_t copy[sizeof packed];
        memcpy(copy, packed, packed_size);
        struct philox_words random = philox(4, 100, round, 0);
        copy[2 + random.word[0] % (packed_size - 2)] ^=
            (uint8_t)(1 + random.word[1] % 255);
        write_file(in("images"), copy, packed_size - random.word[2] % 3 * 5);
        struct dataset *dataset;
        enum status status = dataset_open(in("images"), &options, &dataset);
        assert_true(status == STATUS_OK || status == STATUS_DATA);
        refused += status == STATUS_DATA;
        dataset_close(dataset);
    }
    assert_in_range(refused, 1000, 2000);
    free(idx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATA_TEST(test_an_idx_file_keeps_its_bytes),
        DATA_TEST(test_idx_is_found_in_a_folder_plain_or_gzip_under_any_name),
        DATA_TEST(test_a_large_idx_file_is_read_to_its_last_byte),
        DATA_TEST(test_every_wrong_idx_file_gets_its_sentence),
        DATA_TEST(test_a_damaged_gzip_file_gets_its_sentence),
        DATA_TEST(test_thousands_of_damaged_idx_files_give_a_data_set_or_a_sentence),
        DATA_TEST(test_thousands_of_damaged_gzip_files_give_a_data_set_or_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
