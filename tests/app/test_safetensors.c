/* test_safetensors.c - written whole or not at all, and nothing damaged is ever read. */
#include "tests/support/support.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "app/files/safetensors.h"
#include "kernels/base/status.h"
#include "tests/app/disk.h"

/* This program's fsync(): when `spoils` is set, the disk swallows a bit. */
static int spoils;

int fsync(int descriptor)
{
    if (spoils) {
        char byte = 0;
        off_t place = lseek(descriptor, 0, SEEK_END) - 3;
        if (pread(descriptor, &byte, 1, place) != 1)
            return -1;
        byte ^= 0x10;
        if (pwrite(descriptor, &byte, 1, place) != 1)
            return -1;
    }
    return (int)syscall(SYS_fsync, descriptor);
}

static char folder[512];

static int open_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "%s", make_folder("safetensors"));
    return 0;
}

static int close_folder(void **state)
{
    (void)state;
    remove_folder(folder);
    return 0;
}

/* ---- a small file with everything in it ------------------------------------------ */

static const float weights[6] = {1.0f, -2.5f, 3e-40f, 65504.0f, 0.0f, -0.0f};
static const uint16_t halves[3] = {0x3c00, 0x7bff, 0x0001};
static const uint8_t pixels[5] = {0, 1, 127, 128, 255};
static const int64_t counter = -1234567890123;
static const struct safetensors_pair pairs[] = {
    {"format", "twinscale"}, {"config", "{\"data\": \"h\xc3\xa4user\"}"}, {"empty", ""}};

/* Not in the order of the file: the narrow ones come first here. */
static const struct safetensor all[] = {
    {.name = "pixels",
     .dtype = "U8",
     .rank = 1,
     .shape = {5},
     .data = pixels,
     .bytes = 5},
    {.name = "g.conv1",
     .dtype = "F32",
     .rank = 2,
     .shape = {2, 3},
     .data = weights,
     .bytes = sizeof weights},
    {.name = "nothing", .dtype = "F32", .rank = 2, .shape = {0, 7}, .data = weights},
    {.name = "empty", .dtype = "F16", .rank = 1, .data = weights},
    {.name = "half",
     .dtype = "F16",
     .rank = 1,
     .shape = {3},
     .data = halves,
     .bytes = sizeof halves},
    {.name = "step",
     .dtype = "I64",
     .rank = 0,
     .data = &counter,
     .bytes = sizeof counter},
};
#define ALL_COUNT (sizeof all / sizeof *all)
#define PAIR_COUNT (sizeof pairs / sizeof *pairs)

static enum status write_all(const char *path)
{
    return safetensors_write(path, all, ALL_COUNT, pairs, PAIR_COUNT, NULL);
}

/* True when the file says and holds what `all` and `pairs` do. */
static int holds_all(const struct safetensors_file *file)
{
    int agrees = safetensors_count(file) == ALL_COUNT;
    for (size_t i = 0; i < ALL_COUNT && agrees; i++) {
        const struct safetensor *found = safetensors_find(file, all[i].name);
        agrees = found && strcmp(found->dtype, all[i].dtype) == 0 &&
                 found->rank == all[i].rank &&
                 memcmp(found->shape, all[i].shape, sizeof found->shape) == 0 &&
                 found->bytes == all[i].bytes &&
                 memcmp(found->data, all[i].data, found->bytes) == 0;
    }
    for (size_t i = 0; i < PAIR_COUNT && agrees; i++) {
        const char *value = safetensors_metadata(file, pairs[i].key);
        agrees = value && strcmp(value, pairs[i].value) == 0;
    }
    return agrees;
}

static void test_what_was_written_is_read_back(void **state)
{
    (void)state;
    struct safetensors_file *file;
    const char *path = in_folder(folder, "a.safetensors");
    assert_int_equal(write_all(path), STATUS_OK);
    assert_int_equal(safetensors_open(path, &file), STATUS_OK);
    assert_true(holds_all(file));
    assert_null(safetensors_find(file, "g.conv2"));
    assert_null(safetensors_metadata(file, "clock"));
    assert_int_equal(count_entries(folder), 1);
    safetensors_close(file);
    safetensors_close(NULL);
}

/* One tensor in memory at a time: what was handed out before is overwritten. */
static const void *one_at_a_time(void *context, const struct safetensor *tensor)
{
    static char room[sizeof weights];
    int *calls = context;
    *calls += 1;
    memset(room, 0xee, sizeof room);
    for (size_t i = 0; i < ALL_COUNT; i++)
        if (strcmp(all[i].name, tensor->name) == 0)
            memcpy(room, all[i].data, all[i].bytes);
    return room;
}

static void test_a_source_writes_the_same_file(void **state)
{
    (void)state;
    struct safetensor bare[ALL_COUNT];
    size_t bytes, other_bytes;
    int calls = 0;
    const char *path = in_folder(folder, "a.safetensors");
    assert_int_equal(write_all(path), STATUS_OK);
    char *file = read_text(path, &bytes);
    for (size_t i = 0; i < ALL_COUNT; i++) {
        bare[i] = all[i];
        bare[i].data = NULL;
    }
    struct safetensors_source source = {one_at_a_time, &calls};
    assert_int_equal(safetensors_write(path, bare, ALL_COUNT, pairs, PAIR_COUNT, &source),
                     STATUS_OK);
    assert_in_range(calls, 1, 2 * ALL_COUNT);
    char *other = read_text(path, &other_bytes);
    assert_int_equal(other_bytes, bytes);
    assert_memory_equal(other, file, bytes);
    free(file);
    free(other);
}

/* Its pages were given back while its checksum was made. */
static void test_a_tensor_of_many_pages_is_whole(void **state)
{
    (void)state;
    enum { COUNT = 100000 };
    uint16_t *numbers = malloc(COUNT * sizeof *numbers);
    for (int i = 0; i < COUNT; i++)
        numbers[i] = (uint16_t)(i * 7);
    const struct safetensor tensor = {.name = "n",
                                      .dtype = "U16",
                                      .rank = 1,
                                      .shape = {COUNT},
                                      .data = numbers,
                                      .bytes = COUNT * sizeof *numbers};
    const struct safetensors_pair pair = {"twinscale.version", "1"};
    const char *path = in_folder(folder, "n.safetensors");
    struct safetensors_file *file;
    assert_int_equal(safetensors_write(path, &tensor, 1, &pair, 1, NULL), STATUS_OK);
    assert_int_equal(safetensors_open(path, &file), STATUS_OK);
    assert_memory_equal(safetensors_find(file, "n")->data, numbers, tensor.bytes);
    safetensors_close(file);
    free(numbers);
}

static void test_every_element_of_a_written_file_is_aligned(void **state)
{
    (void)state;
    struct safetensors_file *file;
    const char *path = in_folder(folder, "a.safetensors");
    assert_int_equal(write_all(path), STATUS_OK);
    assert_int_equal(safetensors_open(path, &file), STATUS_OK);
    static const char *const order[] = {"step",    "g.conv1", "empty",
                                        "nothing", "half",    "pixels"};
    static const size_t widths[] = {8, 4, 2, 4, 2, 1};
    for (size_t i = 0; i < ALL_COUNT; i++) {
        const struct safetensor *tensor = safetensors_at(file, i);
        assert_string_equal(tensor->name, order[i]);
        assert_int_equal((uintptr_t)tensor->data % widths[i], 0);
    }
    safetensors_close(file);
}

/* The format by hand: every byte but the checksum's own 16 digits. */
static void test_the_bytes_are_those_of_the_format(void **state)
{
    (void)state;
    const float two[2] = {1.0f, -2.0f};
    const struct safetensor tensor = {.name = "w",
                                      .dtype = "F32",
                                      .rank = 2,
                                      .shape = {1, 2},
                                      .data = two,
                                      .bytes = sizeof two};
    const struct safetensors_pair pair = {"format", "pt"};
    const char *path = in_folder(folder, "w.safetensors");
    assert_int_equal(safetensors_write(path, &tensor, 1, &pair, 1, NULL), STATUS_OK);

    static const char head[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"twinscale.checksum\":\"";
    static const char tail[] =
        "\"},\"w\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}";
    size_t bytes, json = sizeof head - 1 + 16 + sizeof tail - 1;
    size_t padded = (json + 7) / 8 * 8;
    char *file = read_text(path, &bytes);
    assert_int_equal(bytes, 8 + padded + 8);
    for (size_t i = 0; i < 8; i++)
        assert_int_equal((uint8_t)file[i], (padded >> (8 * i)) & 255);
    assert_memory_equal(file + 8, head, sizeof head - 1);
    assert_memory_equal(file + 8 + sizeof head - 1 + 16, tail, sizeof tail - 1);
    for (size_t i = json; i < padded; i++)
        assert_int_equal(file[8 + i], ' ');
    static const uint8_t little_endian[8] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0};
    assert_memory_equal(file + 8 + padded, little_endian, 8);
    free(file);
}

static void test_the_digest_is_fnv_1a(void **state)
{
    (void)state;
    // Values of the reference implementation's own test vectors.
    assert_true(digest_bytes(DIGEST_START, "", 0) == 0xcbf29ce484222325u);
    assert_true(digest_bytes(DIGEST_START, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(digest_bytes(DIGEST_START, "foobar", 6) == 0x85944171f73967e8u);
    uint64_t half = digest_bytes(DIGEST_START, "foo", 3);
    assert_true(digest_bytes(half, "bar", 3) == 0x85944171f73967e8u);
}

/* ---- files of others, and damaged ones ------------------------------------------- */

/* Length, header, and as many bytes of data (0, 1, 2 ...). */
static const char *make_file(const char *header, size_t data_bytes)
{
    const char *path = in_folder(folder, "made.safetensors");
    uint64_t length = strlen(header);
    char *bytes = malloc(8 + length + data_bytes);
    assert_non_null(bytes);
    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++)
        bytes[8 + length + i] = (char)i;
    write_bytes(path, bytes, 8 + length + data_bytes);
    free(bytes);
    return path;
}

static void test_a_file_of_another_program_opens_without_a_checksum(void **state)
{
    (void)state;
    const char *path = make_file(
        "{\"b\": {\"dtype\": \"BF16\", \"shape\": [1, 2], \"data_offsets\": [3, 7]}, "
        "\"__metadata__\": {\"format\": \"pt\"}, "
        "\"a\": {\"dtype\": \"BOOL\", \"shape\": [3], \"data_offsets\": [0, 3]}}   ",
        7);
    struct safetensors_file *file;
    assert_int_equal(safetensors_open(path, &file), STATUS_OK);
    assert_int_equal(safetensors_count(file), 2);
    assert_string_equal(safetensors_at(file, 0)->name, "a");
    const struct safetensor *b = safetensors_find(file, "b");
    assert_int_equal(b->bytes, 4);
    assert_int_equal(((const uint8_t *)b->data)[0], 3);
    assert_string_equal(safetensors_metadata(file, "format"), "pt");
    safetensors_close(file);
}

static void test_a_file_without_tensors_opens(void **state)
{
    (void)state;
    struct safetensors_file *file;
    assert_int_equal(safetensors_open(make_file("{}", 0), &file), STATUS_OK);
    assert_int_equal(safetensors_count(file), 0);
    safetensors_close(file);
}

#define T(dtype, shape, offsets) \
    "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define NAME_OF_96                                                                   \
    "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz" \
    "abcdefghijklmnopqr"

/* One fault each: header, bytes of data, and what the sentence must say. */
static const struct fault {
    const char *header;
    size_t data_bytes;
    const char *sentence;
} faults[] = {
    {"[1]", 0, "the header does not begin with '{'"},
    {" {}", 0, "the header does not begin with '{'"},
    {"{\"a\":", 0, "the header is not valid JSON at byte"},
    {"{\"a\":1} x", 0, "the header is not valid JSON at byte"},
    {"{\"a\":" T("\"U8\"", "[1]", "[0,1]") ",\"a\":" T("\"U8\"", "[1]", "[0,1]") "}", 1,
     "duplicate object key"},
    {"{\"a\":1}", 0, "the header entry \"a\" is not an object with dtype, shape and"},
    {"{\"a\":" T("7", "[1]", "[0,1]") "}", 1, "tensor \"a\" has no dtype"},
    {"{\"a\":" T("\"F33\"", "[1]", "[0,4]") "}", 4, "tensor \"a\" has dtype \"F33\""},
    {"{\"a\":" T("\"\\u001b[2J\"", "[1]", "[0,4]") "}", 4, "has dtype \"?[2J\""},
    {"{\"a\":" T("\"U8\"", "4", "[0,4]") "}", 4, "tensor \"a\" has no shape"},
    {"{\"a\":" T("\"U8\"", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1,
     "has 9 dimensions, at most 8 can be read"},
    {"{\"a\":" T("\"U8\"", "[2,-2]", "[0,4]") "}", 4,
     "size 1 of tensor \"a\" is not a whole"},
    {"{\"a\":" T("\"U8\"", "[2.0]", "[0,2]") "}", 2,
     "size 0 of tensor \"a\" is not a whole"},
    {"{\"a\":" T("\"F32\"", "[4611686018427387904,2]", "[0,4]") "}", 4,
     "the shape of tensor \"a\" is larger than any memory"},
    {"{\"a\":" T("\"F32\"", "[4611686018427387904,4]", "[0,0]") "}", 0,
     "the shape of tensor \"a\" is larger than any memory"},
    {"{\"a\":" T("\"F32\"", "[3]", "[0,8]") "}", 8,
     "tensor \"a\" has 8 bytes of data, its shape and dtype ask for 12"},
    {"{\"a\":" T("\"U8\"", "[4]", "[0]") "}", 4, "tensor \"a\" has no data_offsets"},
    {"{\"a\":" T("\"U8\"", "[4]", "[0,\"4\"]") "}", 4,
     "tensor \"a\" has no data_offsets"},
    {"{\"a\":" T("\"U8\"", "[4]", "[-4,0]") "}", 4, "lies at bytes -4 to 0 of the data"},
    {"{\"a\":" T("\"U8\"", "[4]", "[4,0]") "}", 4, "lies at bytes 4 to 0 of the data"},
    {"{\"a\":" T("\"U8\"", "[5]", "[0,5]") "}", 4,
     "lies at bytes 0 to 5 of the data, which has 4; the file is cut short"},
    {"{\"a\":" T("\"U8\"", "[4]", "[0,4]") ",\"b\":" T("\"U8\"", "[4]", "[3,7]") "}", 7,
     "tensor \"b\" begins at byte 3 of the data, inside another one; 4 was expected"},
    {"{\"a\":" T("\"U8\"", "[4]", "[0,4]") ",\"b\":" T("\"U8\"", "[4]", "[5,9]") "}", 9,
     "tensor \"b\" begins at byte 5 of the data, after a hole; 4 was expected"},
    {"{\"a\":" T("\"U8\"", "[4]", "[1,5]") "}", 5,
     "begins at byte 1 of the data, after a hole"},
    {"{\"a\":" T("\"U8\"", "[4]", "[0,4]") "}", 6,
     "6 bytes follow the header, its tensors fill 4"},
    {"{\"" NAME_OF_96 "\":" T("\"U8\"", "[1]", "[0,1]") "}", 1,
     "the tensor name \"abcdefghijklmnopqrst...\" has 96 bytes, at most 95"},
    {"{\"__metadata__\":[]}", 0, "its \"__metadata__\" is not an object of texts"},
    {"{\"__metadata__\":{\"a\\nb\":1}}", 0, "metadata \"a?b\" is not text"},
    {"{\"__metadata__\":{\"twinscale.version\":\"1\"}}", 0, "its checksum is missing"},
    {"{\"__metadata__\":{\"format\":\"twinscale\"}}", 0, "its checksum is missing"},
    {"{\"__metadata__\":{\"twinscale.checksum\":\"00\"}}", 0,
     "00 was written; the file is"},
};

static void test_every_fault_of_a_header_has_its_own_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        struct safetensors_file *file = (void *)1;
        const char *path = make_file(faults[i].header, faults[i].data_bytes);
        enum status status = safetensors_open(path, &file);
        if (status != STATUS_DATA || !strstr(status_message(), faults[i].sentence))
            fail_msg("fault %zu %s: status %d, \"%s\"", i, faults[i].header, status,
                     status == STATUS_OK ? "" : status_message());
        assert_null(file);
        assert_memory_equal(status_message(), path, strlen(path));
    }
}

static void assert_refused(const char *path, const char *sentence)
{
    struct safetensors_file *file;
    assert_int_equal(safetensors_open(path, &file), STATUS_DATA);
    if (!strstr(status_message(), sentence))
        fail_msg("\"%s\" does not say \"%s\"", status_message(), sentence);
}

static void test_what_is_no_file_of_this_format_is_refused(void **state)
{
    (void)state;
    const char *path = in_folder(folder, "f");
    assert_refused(path, "/f: cannot be opened: No such file");
    assert_refused(folder, "is a folder, a safetensors file was expected");
    write_text(path, "");
    assert_refused(path,
                   "has 0 bytes, a safetensors file has at least 8; it was cut short");
    write_text(path, "\x89PNG\r\n\x1a\n and so on");
    assert_refused(path, "is a PNG picture, no checkpoint");
    write_bytes(path, "\xff\xff\xff\xff\0\0\0\0{}", 10);
    assert_refused(path, "claims a header of 4294967295 bytes, at most 100000000");
    write_bytes(path, "\x09\0\0\0\0\0\0\0{}", 10);
    assert_refused(path,
                   "claims a header of 9 bytes, 2 are left; the file was cut short");
    write_bytes(path, "\0\0\0\0\0\0\0\0", 8);
    assert_refused(path, "the header does not begin with '{'");
}

/* Changes one text of the file to another of the same length. */
static const char *change(const char *from, const char *to)
{
    const char *path = in_folder(folder, "changed.safetensors");
    assert_int_equal(write_all(path), STATUS_OK);
    size_t bytes;
    char *file = read_text(path, &bytes);
    char *place = memmem(file, bytes, from, strlen(from));
    assert_non_null(place);
    memcpy(place, to, strlen(to));
    write_bytes(path, file, bytes);
    free(file);
    return path;
}

static void test_the_checksum_sees_a_change_anywhere(void **state)
{
    (void)state;
    assert_refused(change("g.conv1", "d.conv1"), "the checksum over its contents is ");
    assert_refused(change("[2,3]", "[3,2]"), "the checksum over its contents is ");
    assert_refused(change("\"U8\"", "\"I8\""), "the checksum over its contents is ");
    assert_refused(change("\"format\"", "\"farmat\""),
                   "the checksum over its contents is ");
    assert_refused(change("\"twinscale\"", "\"twinscalf\""),
                   "was written; the file is damaged");
    assert_refused(change("\x7f\x80", "\x7f\x81"), "the checksum over its contents is ");
}

static void test_another_layout_of_the_same_header_keeps_the_checksum(void **state)
{
    (void)state;
    struct safetensors_file *file;
    const char *path = change("\"U8\",\"shape\":[5]", "\"U8\",\"shape\":[5]");
    assert_int_equal(safetensors_open(path, &file), STATUS_OK);
    safetensors_close(file);
    // The padding is blank, whatever blank it is.
    size_t bytes;
    char *text = read_text(path, &bytes);
    uint64_t length;
    memcpy(&length, text, 8);
    char *spread = malloc(bytes + 8);
    assert_non_null(spread);
    memcpy(spread + 8, "{       ", 8); // after the brace, seven blanks
    memcpy(spread + 15, text + 8, bytes - 8);
    spread[15] = ' ';
    length += 7;
    memcpy(spread, &length, 8);
    write_bytes(path, spread, bytes + 7);
    assert_int_equal(safetensors_open(path, &file), STATUS_OK);
    assert_true(holds_all(file));
    safetensors_close(file);
    free(spread);
    free(text);
}

static uint64_t random_state;

static uint32_t random_below(uint32_t limit)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % limit);
}

static void test_no_damage_crashes_or_passes_unseen(void **state)
{
    (void)state;
    const char *path = in_folder(folder, "good.safetensors");
    const char *damaged = in_folder(folder, "damaged.safetensors");
    assert_int_equal(write_all(path), STATUS_OK);
    size_t bytes;
    char *good = read_text(path, &bytes), *bad = malloc(bytes);
    assert_non_null(bad);
    int refused = 0;
    random_state = 42;
    for (int round = 0; round < 4000; round++) {
        memcpy(bad, good, bytes);
        size_t kept = round % 4 == 0 ? random_below((uint32_t)bytes) : bytes;
        int flips = round % 4 == 0 ? 0 : 1 + (int)random_below(4);
        for (int i = 0; i < flips; i++)
            bad[random_below((uint32_t)bytes)] ^= (char)(1u << random_below(8));
        write_bytes(damaged, bad, kept);
        struct safetensors_file *file;
        if (safetensors_open(damaged, &file) != STATUS_OK) {
            refused++;
            continue;
        }
        // Two flips may undo each other, and blanks in the padding may change.
        if (!holds_all(file))
            fail_msg("round %d: damage went unseen", round);
        safetensors_close(file);
    }
    assert_in_range(refused, 3900, 4000);
    free(bad);
    free(good);
}

/* ---- writing against odds -------------------------------------------------------- */

static void test_what_the_disk_spoils_is_not_committed(void **state)
{
    (void)state;
    const char *path = in_folder(folder, "a.safetensors");
    assert_int_equal(write_all(path), STATUS_OK);
    spoils = 1;
    enum status status = write_all(path);
    spoils = 0;
    assert_int_equal(status, STATUS_FAILED);
    assert_non_null(strstr(status_message(),
                           "a.safetensors: not saved: what was read back is "
                           "not what was written"));
    assert_int_equal(count_entries(folder), 1);
    struct safetensors_file *file;
    assert_int_equal(safetensors_open(path, &file), STATUS_OK);
    safetensors_close(file);
}

static void test_metadata_that_is_no_text_is_refused(void **state)
{
    (void)state;
    const struct safetensors_pair latin1 = {"config", "h\xe4user"};
    const char *path = in_folder(folder, "a.safetensors");
    assert_int_equal(safetensors_write(path, all, 1, &latin1, 1, NULL), STATUS_FAILED);
    assert_non_null(
        strstr(status_message(), "the metadata \"config\" is not UTF-8 text"));
    assert_int_equal(count_entries(folder), 0);
}

static float big[1 << 19]; // 2 MiB

static enum status write_big(const char *path, float value, uint64_t generation)
{
    for (size_t i = 0; i < sizeof big / sizeof *big; i++)
        big[i] = value;
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)generation);
    const struct safetensors_pair pair = {"generation", text};
    const struct safetensor tensor = {.name = "big",
                                      .dtype = "F32",
                                      .rank = 1,
                                      .shape = {sizeof big / sizeof *big},
                                      .data = big,
                                      .bytes = sizeof big};
    return safetensors_write(path, &tensor, 1, &pair, 1, NULL);
}

/* The first save of a run, and a later one, on a disk without room for them. */
static int save_where_no_room_is(const char *place)
{
    const char *path = in_folder(place, "snapshot.safetensors");
    EXPECT(write_big(path, 1.0f, 1) == STATUS_FAILED);
    EXPECT(strstr(status_message(), "snapshot.safetensors: could not be written, "));
    EXPECT(strstr(status_message(), " of 2097"));
    EXPECT(count_entries(place) == 0);

    EXPECT(write_all(path) == STATUS_OK);
    EXPECT(write_big(path, 1.0f, 1) == STATUS_FAILED);
    EXPECT(strstr(status_message(), "(the older file is untouched)"));
    EXPECT(count_entries(place) == 1);
    struct safetensors_file *file;
    EXPECT(safetensors_open(path, &file) == STATUS_OK);
    EXPECT(holds_all(file));
    safetensors_close(file);
    return 0;
}

static int save_on_full_disk(const char *place)
{
    int failed = save_where_no_room_is(place);
    if (failed)
        return failed;
    const char *path = in_folder(place, "snapshot.safetensors");
    EXPECT(write_big(path, 1.0f, 1) == STATUS_FAILED);
    EXPECT(strstr(status_message(), "No space left on device; free some space"));
    return 0;
}

static void test_a_full_disk_costs_neither_the_first_nor_an_older_file(void **state)
{
    (void)state;
    int answer = with_small_disk(folder, 1024, save_on_full_disk);
    if (answer == CHILD_SKIPS)
        skip_because(NO_SMALL_DISK);
    assert_int_equal(answer, 0);
}

static void test_a_file_limit_costs_neither_the_first_nor_an_older_file(void **state)
{
    (void)state;
    assert_int_equal(with_file_limit(folder, 1 << 20, save_where_no_room_is), 0);
}

/* Saves generation after generation and tells each one that is safe, until it is killed.
 */
static _Noreturn void save_forever(const char *path, volatile uint64_t *safe)
{
    for (uint64_t generation = *safe + 1;; generation++) {
        if (write_big(path, (float)generation, generation) != STATUS_OK) {
            fprintf(stderr, "%s\n", status_message());
            _exit(1);
        }
        *safe = generation;
    }
}

static void assert_complete(const char *path, uint64_t safe)
{
    struct safetensors_file *file;
    if (safetensors_open(path, &file) != STATUS_OK)
        fail_msg("%s", status_message());
    uint64_t generation = strtoull(safetensors_metadata(file, "generation"), NULL, 10);
    // Killed between the rename and the note of it, the file is one ahead.
    assert_in_range(generation, safe, safe + 1);
    const float *values = safetensors_find(file, "big")->data;
    for (size_t i = 0; i < sizeof big / sizeof *big; i++)
        if (values[i] != (float)generation)
            fail_msg("element %zu of generation %llu is %g", i,
                     (unsigned long long)generation, (double)values[i]);
    safetensors_close(file);
}

static void test_a_kill_at_any_moment_leaves_a_complete_file(void **state)
{
    (void)state;
    const char *path = in_folder(folder, "a.safetensors");
    volatile uint64_t *safe =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(safe != MAP_FAILED);
    assert_int_equal(write_big(path, 1.0f, 1), STATUS_OK);
    *safe = 1;
    random_state = 7;
    int left_half = 0;
    const char *temporary = in_folder(folder, ".a.safetensors.0.twinscale-part");
    for (int round = 0; round < 30 || (!left_half && round < 3000); round++) {
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            save_forever(path, safe);
        struct timespec moment = {0, 1000000 + random_below(40000) * 1000};
        nanosleep(&moment, NULL);
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status)); // and had not given up by itself
        left_half += path_exists(temporary);
        assert_complete(path, *safe);
    }
    assert_true(left_half > 0); // some kills did hit the middle of a write
    assert_int_equal(write_big(path, 2.0f, 2), STATUS_OK);
    assert_int_equal(count_entries(folder), 1);
    munmap((void *)(uintptr_t)safe, 4096);
}

/* ---- our own mistakes ------------------------------------------------------------ */

static int write_a_name_twice(const char *place)
{
    const struct safetensor twice[2] = {all[0], all[0]};
    return (int)safetensors_write(in_folder(place, "f"), twice, 2, NULL, 0, NULL);
}

static int write_wrong_bytes(const char *place)
{
    struct safetensor wrong = all[0];
    wrong.bytes = 4;
    return (int)safetensors_write(in_folder(place, "f"), &wrong, 1, NULL, 0, NULL);
}

static int write_unknown_dtype(const char *place)
{
    struct safetensor wrong = all[0];
    memcpy(wrong.dtype, "f32", 4);
    return (int)safetensors_write(in_folder(place, "f"), &wrong, 1, NULL, 0, NULL);
}

static void test_wrong_descriptions_abort_before_anything_is_written(void **state)
{
    (void)state;
    char text[2048];
    int (*const bodies[])(const char *) = {write_a_name_twice, write_wrong_bytes,
                                           write_unknown_dtype};
    static const char *const words[] = {"two tensors are named pixels",
                                        "pixels: 4 bytes, its shape has 5",
                                        "0 of 1 tensors have a known dtype"};
    for (int i = 0; i < 3; i++) {
        int answer = with_stderr(text, sizeof text, folder, bodies[i]);
        assert_int_equal(answer, 128 + SIGABRT);
        assert_non_null(strstr(text, words[i]));
        assert_int_equal(count_entries(folder), 0);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_folder, close_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_was_written_is_read_back),
        TEST(test_a_source_writes_the_same_file),
        TEST(test_a_tensor_of_many_pages_is_whole),
        TEST(test_every_element_of_a_written_file_is_aligned),
        TEST(test_the_bytes_are_those_of_the_format),
        TEST(test_the_digest_is_fnv_1a),
        TEST(test_a_file_of_another_program_opens_without_a_checksum),
        TEST(test_a_file_without_tensors_opens),
        TEST(test_every_fault_of_a_header_has_its_own_sentence),
        TEST(test_what_is_no_file_of_this_format_is_refused),
        TEST(test_the_checksum_sees_a_change_anywhere),
        TEST(test_another_layout_of_the_same_header_keeps_the_checksum),
        TEST(test_no_damage_crashes_or_passes_unseen),
        TEST(test_what_the_disk_spoils_is_not_committed),
        TEST(test_metadata_that_is_no_text_is_refused),
        TEST(test_a_full_disk_costs_neither_the_first_nor_an_older_file),
        TEST(test_a_file_limit_costs_neither_the_first_nor_an_older_file),
        TEST(test_a_kill_at_any_moment_leaves_a_complete_file),
        TEST(test_wrong_descriptions_abort_before_anything_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
