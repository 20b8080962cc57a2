/* test_commands.c - what a user types, and what the program answers: files, sentences and
 * exit codes. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/app/runs.h"
#include "tests/support/support.h"

static char out[512], run[1024];

static int make_one_run(void **state)
{
    (void)state;
    snprintf(out, sizeof out, "%s", make_folder("commands"));
    twinscale_must("train " SMALL_RUN " --out '%s/runs' --kimg 0.096 --snap 0.032", out);
    char runs[600];
    snprintf(runs, sizeof runs, "%s/runs", out);
    snprintf(run, sizeof run, "%s", run_in(runs));
    return 0;
}

static int remove_run(void **state)
{
    (void)state;
    remove_folder(out);
    return 0;
}

static void expect(int code, const char *words, const char *arguments)
{
    char text[32768], filled[2048];
    // "RUN" and "OUT" in the arguments stand for the folders of this test.
    size_t used = 0;
    for (const char *c = arguments; *c && used + 1100 < sizeof filled;) {
        const char *with = !strncmp(c, "RUN", 3)   ? run
                           : !strncmp(c, "OUT", 3) ? out
                                                   : NULL;
        if (with) {
            used += (size_t)snprintf(filled + used, sizeof filled - used, "%s", with);
            c += 3;
        } else {
            filled[used++] = *c++;
        }
    }
    filled[used] = '\0';
    int got = twinscale(text, sizeof text, "%s", filled);
    if (got != code || !strstr(text, words))
        fail_msg("twinscale %s\nexit %d, expected %d with \"%s\" in:\n%s", filled, got,
                 code, words, text);
}

static void test_a_run_leaves_its_files(void **state)
{
    (void)state;
    const char *const files[] = {"options.json",
                                 "log.txt",
                                 "stats.jsonl",
                                 "reals.png",
                                 "fakes_init.png",
                                 "scales.png",
                                 "snapshot-000000.safetensors",
                                 "snapshot-000000.032.safetensors",
                                 "snapshot-000000.096.safetensors",
                                 "fakes000000.096.png"};
    char text[256];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (run_command(text, sizeof text, "test -s '%s/%s'", run, files[i]) != 0)
            fail_msg("%s has no %s", run, files[i]);
}

static void test_info_tells_counters_scalers_layers_and_settings(void **state)
{
    (void)state;
    expect(0, "step 6, 0.096 kimg", "info RUN");
    expect(0, "growth tracker 6 of 2000", "info RUN");
    expect(0, "g.conv1       conv transpose", "info RUN");
    expect(0, "\"g_width\": 8", "info RUN");
    expect(0, "cpu", "info --devices");
}

static json_t *info_json(const char *source)
{
    char text[65536];
    if (twinscale(text, sizeof text, "info '%s' --json", source) != 0)
        fail_msg("%s", text);
    json_t *info = json_loads(text, 0, NULL);
    if (!info)
        fail_msg("not JSON: %s", text);
    return info;
}

static void test_info_as_json_holds_what_info_shows(void **state)
{
    (void)state;
    char digest[32];
    const char *json_digest, *checkpoint, *data, *first_layer;
    int step, images, rollbacks, data_images, width, updates, tracker, g_count;
    double kimg, seconds, scale;
    json_t *info = info_json(run), *found, *layers, *none;
    assert_int_equal(
        json_unpack(info,
                    "{s:s, s:i, s:i, s:F, s:F, s:i, s:{s:s, s:i, s:s}, "
                    "s:{s:{s:F, s:i, s:i}, s:{s:F}}, s:o, s:o, s:{s:i}, s:{s:i}, s:s}",
                    "checkpoint", &checkpoint, "step", &step, "images", &images, "kimg",
                    &kimg, "elapsed_sec", &seconds, "rollbacks", &rollbacks, "data",
                    "name", &data, "images", &data_images, "digest", &json_digest,
                    "scalers", "G", "scale", &scale, "updates", &updates,
                    "_growth_tracker", &tracker, "D", "scale", &scale, "found_scales",
                    &found, "layers", &layers, "parameters", "G", &g_count, "settings",
                    "g_width", &width, "digest", &json_digest),
        0);
    digest_of(run, digest);
    assert_string_equal(json_digest, digest);
    assert_non_null(strstr(checkpoint, "snapshot-000000.096.safetensors"));
    assert_true(step == 6 && images == 96 && kimg == 0.096 && rollbacks == 0);
    assert_string_equal(data, "shapes");
    assert_true(scale == 1024.0 && updates == 6 && tracker == 6 && width == 8);
    assert_int_equal(json_array_size(found), 0);
    json_int_t count = 0;
    for (size_t i = 0; i < json_array_size(layers); i++) {
        json_t *layer = json_array_get(layers, i);
        if (json_string_value(json_object_get(layer, "layer"))[0] == 'g')
            count += json_integer_value(json_object_get(layer, "parameters"));
    }
    assert_int_equal(count, g_count);
    first_layer = json_string_value(json_object_get(json_array_get(layers, 0), "layer"));
    assert_string_equal(first_layer, "g.conv1");
    none = json_object_get(json_object_get(info, "scalers"), "D_fake");
    assert_null(none);
    json_decref(info);
    // A snapshot alone, too.
    char path[1200];
    snprintf(path, sizeof path, "%s/snapshot-000000.032.safetensors", run);
    info = info_json(path);
    assert_int_equal(json_integer_value(json_object_get(info, "step")), 2);
    json_decref(info);
}

static void test_samples_do_not_depend_on_their_company(void **state)
{
    (void)state;
    char text[256];
    expect(0, "grid: ", "sample RUN --seeds 5 --grid 1x1 -o OUT/five.png");
    expect(0, "grid: ", "sample RUN --seeds 5 -o OUT/five_again.png --threads 1");
    assert_int_equal(
        run_command(text, sizeof text, "cmp '%s/five.png' '%s/five_again.png'", out, out),
        0);
    expect(0,
           "grid: ", "sample RUN/snapshot-000000.032.safetensors --raw -o OUT/raw.png");
}

static void test_sample_never_overwrites_unasked(void **state)
{
    (void)state;
    expect(0, "grid: ", "sample RUN --seeds 1 -o OUT/one.png");
    expect(2, "one.png", "sample RUN --seeds 2 -o OUT/one.png");
    expect(0, "grid: ", "sample RUN --seeds 2 -o OUT/one.png --force");
}

static void test_wrong_use_is_code_2_and_names_what_was_wrong(void **state)
{
    (void)state;
    expect(2, "no command", "");
    expect(2, "trian: no such command", "trian");
    expect(2, "--g-lr", "train --data builtin:shapes --g-lrr 1e-4");
    expect(2, "batch", "train --data builtin:shapes --batch 1");
    expect(2, "fmnist-quick", "train --preset fmnist-quik");
    expect(2, "--seeds 3-1", "sample RUN --seeds 3-1 -o OUT/x.png");
    expect(2, "--grid 1x1 has room for 1 image, --seeds 0-1 names 2; give",
           "sample RUN --seeds 0-1 --grid 1x1 -o OUT/x.png");
    expect(2, "--threads: \"1025\" is out of range; give a whole number from 0 to 1024",
           "sample RUN --threads 1025 -o OUT/x.png");
    expect(2, "--grid 2x2", "sample RUN --seeds 0-63 --grid 2x2 -o OUT/x.png");
    expect(2, "no such option", "sample RUN --sede 1");
    expect(2, "no such option", "info RUN --digets");
    expect(2, "expected a path", "data check");
    expect(2, "--g-init-scale",
           "train --data builtin:shapes --g-init-scale inf --dry-run");
}

static void test_an_empty_path_is_refused_everywhere(void **state)
{
    (void)state;
    expect(2, "--data: is empty", "train --data ''");
    expect(2, "--preset: is empty", "train --preset ''");
    expect(2, "--out: is empty", "train --data builtin:shapes --out ''");
    expect(2, "--resume: is empty", "train " SMALL_RUN " --out OUT/none --resume ''");
    expect(2, "--resume: is empty", "train " SMALL_RUN " --out OUT/none --resume=");
    expect(2, "an argument is empty", "train ''");
    expect(2, "an argument is empty", "data check ''");
    expect(2, "checkpoint is empty", "info ''");
    expect(2, "checkpoint is empty", "sample '' -o OUT/x.png");
    expect(2, "-o: is empty", "sample RUN -o ''");
    expect(2, "expected the folder", "ctl ''");
    expect(2, "--json: is empty", "bench layers --json ''");
}

static void test_a_users_files_that_look_temporary_stay(void **state)
{
    (void)state;
    char text[256];
    assert_int_equal(run_command(text, sizeof text,
                                 "cp -r '%s' '%s/notes' && echo precious | tee "
                                 "'%s/notes/notes.tmp' '%s/notes/t.png.tmp' >/dev/null",
                                 run, out, out, out),
                     0);
    expect(0, "grid: ", "sample RUN --seeds 1 -o OUT/notes/t.png");
    expect(0, "checkpoint: ", "train --resume OUT/notes --kimg 0.128");
    assert_int_equal(run_command(text, sizeof text,
                                 "cat '%s/notes/notes.tmp' '%s/notes/t.png.tmp'", out,
                                 out),
                     0);
    assert_string_equal(text, "precious\nprecious\n");
}

/* A limit that only ends what hangs. */
static void expect_at_once(int code, const char *words, const char *arguments)
{
    alarm(600);
    expect(code, words, arguments);
    alarm(0);
}

static void copy_run_with_fifo(const char *name, const char *fifo)
{
    char text[512];
    assert_int_equal(run_command(text, sizeof text,
                                 "cp -r '%s' '%s/%s' && cd '%s/%s' && rm -f %s && "
                                 "mkfifo %s",
                                 run, out, name, out, name, fifo, fifo),
                     0);
}

/* 0.096 and 0.032 are whole steps of 16 images, and 0.1 is not: its step ends at
 * 0.112. */
static void test_files_are_named_after_the_mark_and_say_where_the_run_was(void **state)
{
    (void)state;
    char text[512], runs[600];
    twinscale_must("train " SMALL_RUN " --out '%s/marks' --kimg 0.1 --snap 1", out);
    snprintf(runs, sizeof runs, "%s/marks", out);
    const char *marked = run_in(runs);
    const char *const files[] = {"snapshot-000000.100.safetensors",
                                 "fakes000000.100.png"};
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(
            run_command(text, sizeof text, "test -s '%s/%s'", marked, files[i]), 0);
    assert_int_equal(lines_with(marked, "log.txt",
                                "snapshot-000000.100.safetensors (step 7, 0.112 kimg)"),
                     1);
    assert_int_equal(lines_with(marked, "fakes000000.100.png", "0.112"), 1);
    expect(0, "step 7, 0.112 kimg", "info OUT/marks/0*");
    expect(0, "Named after the kimg mark that was passed", "train --help");
}

static void test_a_snapshot_that_was_asked_for_is_logged_once(void **state)
{
    (void)state;
    char text[8192];
    int code = run_command(
        text, sizeof text,
        "'%s' train " SMALL_RUN
        " --out '%s/asked' --kimg 640 --snap 1000 >'%s/asked.txt' "
        "2>&1 & pid=$!; "
        "wait_for() { n=0; while ! grep -qs \"$1\" $2 && [ $n -lt 12000 ]; do sleep "
        "0.05; "
        "n=$((n+1)); done; }; "
        "wait_for tick '%s/asked.txt'; kill -USR1 $pid; wait_for '^saved ' "
        "'%s/asked.txt'; "
        "kill -TERM $pid; wait $pid || exit 1; "
        "test $(grep -c '^saved ' '%s/asked.txt') = 1 && cut -d' ' -f2 "
        "'%s'/asked/0*/log.txt | grep -c snapshot- && "
        "cut -d' ' -f1,2 '%s'/asked/0*/log.txt | grep '^saved ' | sort | uniq -d",
        TWINSCALE_PROGRAM, out, out, out, out, out, out, out);
    if (code != 0 || strstr(text, "saved"))
        fail_msg("exit %d: %s", code, text);
}

/* The whole run folder is removed while the run trains, in as many tries as it takes: a
 * log that is removed alone is opened anew. */
static void test_no_result_is_named_that_is_not_there(void **state)
{
    (void)state;
    char text[8192];
    int code = run_command(
        text, sizeof text,
        "'%s' train " SMALL_RUN " --out '%s/gone' --kimg 640 --snap 1000 >'%s/gone.txt' "
        "2>&1 & pid=$!; n=0; while [ ! -s '%s'/gone/*/stats.jsonl ] && [ $n -lt 12000 ]; "
        "do "
        "sleep 0.05; n=$((n+1)); done; until rm -rf '%s/gone' 2>/dev/null; do :; done; "
        "kill -TERM $pid; "
        "wait $pid; code=$?; cat '%s/gone.txt'; exit $code",
        TWINSCALE_PROGRAM, out, out, out, out, out);
    if (code != 1 || strstr(text, "newest good one") || strstr(text, "go on with") ||
        strstr(text, "grid: ") || strstr(text, "\ncheckpoint: /") ||
        !strstr(text, "there is no other in"))
        fail_msg("exit %d: %s", code, text);
}

static void test_an_output_never_replaces_what_is_read(void **state)
{
    (void)state;
    char text[512];
    assert_int_equal(
        run_command(text, sizeof text,
                    "cp -r '%s' '%s/in' && cd '%s/in' && "
                    "s=snapshot-000000.032.safetensors && ln -s $s l.png && "
                    "ln $s h.png && ln snapshot-000000.096.safetensors o.png && "
                    "cp options.json mine.json && ln -s mine.json j.json && "
                    "sha256sum * >'%s/in.sums'",
                    run, out, out, out),
        0);
#define S "OUT/in/snapshot-000000.032.safetensors"
    expect(2, "is the same file as", "sample " S " -o " S " --force");
    expect(2, "is the same file as", "sample " S " -o OUT/in/l.png --force");
    expect(2, "is the same file as", "sample " S " -o OUT/in/h.png --force");
    expect(2, "is the same file as", "sample OUT/in -o OUT/in/o.png --force");
    expect(2, "is a safetensors file", "sample OUT/in -o " S " --force");
    expect(2, "is a safetensors file", "sample OUT/in -o OUT/in/l.png --force");
    expect(2, "is a safetensors file", "sample OUT/in -o OUT/in/h.png --force");
    expect(2, "ends in .png", "sample OUT/in -o OUT/in/new.safetensors");
    expect(2, "is the same file as",
           "bench layers --preset OUT/in/mine.json --json OUT/in/j.json");
    expect(2, "is the same file as",
           "bench layers --preset=OUT/in/mine.json --json=OUT/in/mine.json");
    expect(2, "is a safetensors file", "bench layers --json " S);
#undef S
    assert_int_equal(run_command(text, sizeof text,
                                 "cd '%s/in' && sha256sum -c --quiet ../in.sums", out),
                     0);
}

static void test_an_output_is_what_its_name_says(void **state)
{
    (void)state;
    expect(2, ".jpg: a .png file is written; give a name that ends in .png",
           "sample RUN -o OUT/s.jpg");
    expect(2, "ends in .png", "sample RUN -o OUT/plain");
    expect(2, "is a folder; give a file in it, such as", "sample RUN -o OUT/");
    expect(2, "is a folder; give a file in it, such as", "sample RUN -o OUT");
    expect(2, "is a folder; give a file in it, such as", "sample RUN -o OUT/no/");
    expect(1, "there is not a folder ", "sample RUN -o OUT/no/g.png");
    expect(0, "grid: ", "sample RUN --seeds 1 -o OUT/LARGE.PNG");
    expect(2, "ends in .json", "bench layers --json OUT/l.txt");
    expect(1, "there is not a folder ", "bench layers --json OUT/no/l.json");
}

static void test_a_fifo_is_waited_for_nowhere(void **state)
{
    (void)state;
    char text[512];
    const char *words = "is not a regular file, ";
    assert_int_equal(run_command(text, sizeof text,
                                 "mkfifo '%s/fi' '%s/fi.json' '%s/fi.png'", out, out,
                                 out),
                     0);
    expect_at_once(4, words, "info OUT/fi");
    expect_at_once(4, words, "sample OUT/fi -o OUT/x.png");
    expect_at_once(4, words, "train --resume OUT/fi");
    expect_at_once(4, words, "train --preset OUT/fi.json -n");
    expect_at_once(1, words, "sample RUN -o OUT/fi.png --force");
    expect_at_once(1, words, "bench layers --seconds 0.1 --threads 1 --json OUT/fi.json");
    copy_run_with_fifo("fifo1", "snapshot-000009.safetensors");
    expect_at_once(0, "step 6, 0.096 kimg", "info OUT/fifo1");
    expect_at_once(0, "passed over a newer", "train --resume OUT/fifo1");
    copy_run_with_fifo("fifo2", "log.txt");
    expect_at_once(1, words, "train --resume OUT/fifo2 --kimg 0.128");
    copy_run_with_fifo("fifo3", "stats.jsonl");
    expect_at_once(1, words, "train --resume OUT/fifo3 --kimg 0.128");
    copy_run_with_fifo("fifo4", "scales.png");
    expect_at_once(0, words, "train --resume OUT/fifo4 --kimg 0.128");
    copy_run_with_fifo("fifo5", "control");
    expect_at_once(0, "cannot reach it", "train --resume OUT/fifo5 --kimg 0.128");
    assert_int_equal(run_command(text, sizeof text, "test -p '%s/fifo5/control'", out),
                     0);
}

static void test_what_is_no_checkpoint_is_named_for_what_it_is(void **state)
{
    (void)state;
    char text[512];
    assert_int_equal(
        run_command(text, sizeof text,
                    "cd '%s' && printf 'PK\\3\\4\\0\\0\\10\\10\\0' >a.pt && "
                    "printf '\\200\\2\\212\\12l\\374\\234F\\371' >b.pt && "
                    "printf '\\200\\4\\225\\1\\2\\3\\4\\5\\6\\7' >c.pkl && "
                    "echo some notes on this run >d.txt && "
                    "printf 'step 1 is here\\n' | gzip >e.gz && mkdir -p empty",
                    out),
        0);
    expect(4, "is JSON text (settings go with --preset",
           "train --resume RUN/options.json");
    expect(4, "is a PNG picture, no checkpoint; give a run folder or a snapshot",
           "train --resume RUN/scales.png");
    expect(4, "is a zip archive, as PyTorch's .pt", "info OUT/a.pt");
    expect(4, "is a Python pickle", "info OUT/b.pt");
    expect(4, "is a Python pickle", "sample OUT/c.pkl -o OUT/x.png");
    expect(4, "is text, no checkpoint", "info OUT/d.txt");
    expect(4, "is gzip data", "info OUT/e.gz");
    expect(4, "no snapshot-*.safetensors in this folder", "train --resume OUT/empty");
    expect(4, "No such file or directory; give a run folder",
           "train --resume fmnist-quick");
}

/* Two learning rates from one snapshot, and what the first future was is still there. */
static void test_every_future_that_was_trained_is_kept(void **state)
{
    (void)state;
    char text[512], first[32], kept[32], name[1200];
    assert_int_equal(run_command(text, sizeof text, "cp -r '%s' '%s/futures'", run, out),
                     0);
    digest_of(run, first);
    for (int i = 0; i < 2; i++)
        twinscale_must("train --resume '%s/futures/snapshot-000000.032.safetensors' "
                       "--kimg 0.096 --g-lr %s",
                       out, i ? "2e-3" : "1e-3");
    snprintf(name, sizeof name, "%s/futures/snapshot-000000.096.safetensors.bak", out);
    digest_of(name, kept);
    assert_string_equal(kept, first);
    assert_int_equal(
        run_command(text, sizeof text,
                    "cd '%s/futures' && cmp -s fakes000000.096.png.bak "
                    "'%s/fakes000000.096.png' && "
                    "for f in snapshot-000000.096.safetensors fakes000000.096.png; do "
                    "test -e $f -a -e $f.bak2 -a ! -e $f.bak3 || exit 1; "
                    "! cmp -s $f.bak $f.bak2 || exit 2; done",
                    out, run),
        0);
}

static void test_absent_things_have_their_codes(void **state)
{
    (void)state;
    expect(3, "cuda:99", "train --data builtin:shapes --device cuda:99 --out OUT/none");
    expect(3, "DISPLAY", "train " SMALL_RUN " --preview window --out OUT/none2");
    expect(4, "/nothing", "train --data OUT/nothing --out OUT/none");
    expect(4, "images", "train " SMALL_RUN " --batch 8192 --out OUT/none");
    expect(4, "nothing", "info OUT/nothing");
}

static void test_a_damaged_checkpoint_is_refused_and_the_one_before_is_taken(void **state)
{
    (void)state;
    char text[4096];
    assert_int_equal(run_command(text, sizeof text,
                                 "cp -r '%s' '%s/damaged' && cd '%s/damaged' && "
                                 "truncate -s 5000 snapshot-000000.096.safetensors",
                                 run, out, out),
                     0);
    expect(4, "snapshot-000000.096", "info OUT/damaged/snapshot-000000.096.safetensors");
    expect(0, "step 4, 0.064 kimg", "info OUT/damaged");
}

static void test_resume_says_what_it_cannot_change_and_when_it_is_done(void **state)
{
    (void)state;
    expect(2, "--g-width", "train --resume RUN --g-width 16 --kimg 1");
    expect(0, "finished", "train --resume RUN");
    expect(0, "checkpoint: ", "train --resume RUN --kimg 0.128");
    char text[256];
    // Each tick once in the log: 0.016 (the first step), then the end of each part.
    assert_int_equal(run_command(text, sizeof text,
                                 "sort '%s/stats.jsonl' | uniq -d | grep -c .", run),
                     1);
}

static void test_resume_refuses_other_data(void **state)
{
    (void)state;
    expect(4, "other pixels", "train --resume RUN --kimg 1 --data builtin:fashion");
}

static void test_a_run_folder_among_the_pictures_is_no_data(void **state)
{
    (void)state;
    char text[256];
    assert_int_equal(
        run_command(text, sizeof text,
                    "mkdir '%s/pics' && cp '%s/reals.png' '%s/pics/a.png' && "
                    "cp -r '%s' '%s/pics/run'",
                    out, run, out, run, out),
        0);
    expect(0, "1 image usable", "data check OUT/pics --resolution 32");
    // As training with that preset would see it.
    expect(0, "see them as 28 x 28 x 3", "data check OUT/pics --preset fmnist-quick");
    expect(0, "see them as 28 x 28 x 1", "data check builtin:fashion");
    expect(0, "see them as 64 x 64 x 3", "data check OUT/pics");
    expect(2, "did you mean --resolution?", "data check OUT/pics --resolutoin 32");
}

static void test_the_resize_filter_changes_the_pixels(void **state)
{
    (void)state;
    char text[512];
    assert_int_equal(run_command(text, sizeof text,
                                 "mkdir '%s/resize' && for i in 1 2 3 4; do "
                                 "cp '%s/reals.png' '%s/resize/'$i.png; done",
                                 out, run, out),
                     0);
    expect(0, "checkpoint: ",
           "train --data OUT/resize --resolution 28 --g-width 4 --d-width 4 --latent 8 "
           "--batch 4 --grid 2x2 --kimg 0.004 --preview off --out OUT/by_lanczos");
    expect(0, "checkpoint: ",
           "train --data OUT/resize --resolution 28 --g-width 4 --d-width 4 --latent 8 "
           "--batch 4 --grid 2x2 --kimg 0.004 --preview off --out OUT/by_area "
           "--resize-filter area");
    assert_int_equal(run_command(text, sizeof text,
                                 "test -s '%s'/by_area/0*/reals.png && "
                                 "! cmp -s '%s'/by_lanczos/0*/reals.png "
                                 "'%s'/by_area/0*/reals.png",
                                 out, out, out),
                     0);
    expect(2, "lanczos", "train --data OUT/resize --resize-filter bicubic");
}

static void test_a_dry_run_really_steps_and_leaves_nothing(void **state)
{
    (void)state;
    char text[256];
    expect(0, "images/s", "train " SMALL_RUN " -n --kimg 0.064 --out OUT/dry");
    assert_int_equal(run_command(text, sizeof text, "test ! -e '%s/dry'", out), 0);
}

static void test_settings_are_shown_with_where_they_come_from(void **state)
{
    (void)state;
// Short, so that a program that trained would end.
#define SHOWN " --kimg 0.064 --out OUT/shown --show-config"
    expect(0, "  --latent               64                       preset fmnist-quick\n",
           "train --preset fmnist-quick --data builtin:fashion" SHOWN);
    expect(0, "  --channels             1                        data\n",
           "train --data builtin:fashion" SHOWN);
    expect(0, "  --resolution           28                       data\n",
           "train --data builtin:fashion" SHOWN);
    expect(0, "  --resolution           auto                     default\n",
           "train --show-config"); // no data yet
    expect(0, "  --kimg                 7                        command line\n",
           "train --resume RUN --kimg 7 --show-config");
    expect(0, "  --g-width              8                        snapshot\n",
           "train --resume RUN --show-config");
    expect(2, "--show-config: bench scaler begins runs of its own",
           "bench scaler --show-config");
    // A dry run shows those that differ from the defaults.
    expect(0, "\n  --seed                 3                        command line\n",
           "train " SMALL_RUN " -n --kimg 0.064 --out OUT/dry");
}

static void test_files_that_cannot_be_used_are_named_by_runs_and_dry_runs(void **state)
{
    (void)state;
    char text[512];
    assert_int_equal(run_command(text, sizeof text,
                                 "mkdir '%s/mixed' && for i in 1 2 3 4; do "
                                 "cp '%s/reals.png' '%s/mixed/'$i.png; done; "
                                 "for i in 5 6 7 8 9 a b; do "
                                 "echo no >'%s/mixed/'$i.png; done",
                                 out, run, out, out),
                     0);
    static const char *const calls[] = {
        "train --data OUT/mixed --g-width 4 --d-width 4 --batch 4 --resolution 28 -n",
        "train --data OUT/mixed --g-width 4 --d-width 4 --batch 4 --resolution 28 "
        "--kimg 0.004 --preview off --out OUT/by_mixed"};
    for (int i = 0; i < 2; i++) {
        expect(0, "/mixed/9.png: not a picture: it begins with the bytes 6e 6f 0a", calls[i]);
        expect(0, " passed over ", calls[i]);
        expect(0, "and 2 more files that cannot be used", calls[i]);
        expect(0, "4 images are few", calls[i]);
    }
}

static void test_a_static_scale_without_a_value_is_one_that_trains(void **state)
{
    (void)state;
    expect(
        0, "begins at 2^",
        "train --data builtin:shapes --resolution 28 --g-width 8 --d-width 8 --batch 16 "
        "--kimg 0.8 --scaler static --preview off --out OUT/static");
}

static void test_a_run_of_hours_is_told_before_its_first_step(void **state)
{
    (void)state;
    char text[8192];
    // 10^10 images take more than an hour on any machine.
    int code = run_command(
        text, sizeof text,
        "'%s' train " SMALL_RUN " --out '%s/long' --kimg 1e7 >'%s/long.txt' 2>&1 & "
        "pid=$!; n=0; while [ ! -s '%s'/long/*/stats.jsonl ] && [ $n -lt 400 ]; do "
        "sleep 0.05; n=$((n+1)); done; kill -TERM $pid; wait $pid; code=$?; "
        "cat '%s/long.txt'; exit $code",
        TWINSCALE_PROGRAM, out, out, out, out);
    const char *told = strstr(text, "time    about ");
    const char *tick = strstr(text, "tick 0 ");
    if (code != 0 || !told || !tick || told > tick ||
        !strstr(told, " for 1e+07 kimg on this machine, at "))
        fail_msg("exit %d: %s", code, text);
    assert_null(strstr(text, "eta ?"));
}

static void test_a_signal_saves_and_ends_with_0(void **state)
{
    (void)state;
    char text[8192];
    int code = run_command(
        text, sizeof text,
        "'%s' train " SMALL_RUN " --out '%s/signal' --kimg 640 >'%s/signal.txt' 2>&1 & "
        "pid=$!; n=0; while [ ! -s '%s'/signal/*/stats.jsonl ] && [ $n -lt 12000 ]; do "
        "sleep 0.05; n=$((n+1)); done; kill -TERM $pid; wait $pid; code=$?; "
        "cat '%s/signal.txt'; exit $code",
        TWINSCALE_PROGRAM, out, out, out, out);
    if (code != 0 || !strstr(text, "--resume") || !strstr(text, "checkpoint: "))
        fail_msg("exit %d: %s", code, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_run_leaves_its_files),
        cmocka_unit_test(test_info_tells_counters_scalers_layers_and_settings),
        cmocka_unit_test(test_info_as_json_holds_what_info_shows),
        cmocka_unit_test(test_samples_do_not_depend_on_their_company),
        cmocka_unit_test(test_sample_never_overwrites_unasked),
        cmocka_unit_test(test_wrong_use_is_code_2_and_names_what_was_wrong),
        cmocka_unit_test(test_an_empty_path_is_refused_everywhere),
        cmocka_unit_test(test_a_users_files_that_look_temporary_stay),
        cmocka_unit_test(test_files_are_named_after_the_mark_and_say_where_the_run_was),
        cmocka_unit_test(test_a_snapshot_that_was_asked_for_is_logged_once),
        cmocka_unit_test(test_no_result_is_named_that_is_not_there),
        cmocka_unit_test(test_an_output_never_replaces_what_is_read),
        cmocka_unit_test(test_an_output_is_what_its_name_says),
        cmocka_unit_test(test_a_fifo_is_waited_for_nowhere),
        cmocka_unit_test(test_what_is_no_checkpoint_is_named_for_what_it_is),
        cmocka_unit_test(test_every_future_that_was_trained_is_kept),
        cmocka_unit_test(test_absent_things_have_their_codes),
        cmocka_unit_test(
            test_a_damaged_checkpoint_is_refused_and_the_one_before_is_taken),
        cmocka_unit_test(test_resume_says_what_it_cannot_change_and_when_it_is_done),
        cmocka_unit_test(test_resume_refuses_other_data),
        cmocka_unit_test(test_a_run_folder_among_the_pictures_is_no_data),
        cmocka_unit_test(test_the_resize_filter_changes_the_pixels),
        cmocka_unit_test(test_a_dry_run_really_steps_and_leaves_nothing),
        cmocka_unit_test(test_settings_are_shown_with_where_they_come_from),
        cmocka_unit_test(test_files_that_cannot_be_used_are_named_by_runs_and_dry_runs),
        cmocka_unit_test(test_a_static_scale_without_a_value_is_one_that_trains),
        cmocka_unit_test(test_a_run_of_hours_is_told_before_its_first_step),
        cmocka_unit_test(test_a_signal_saves_and_ends_with_0),
    };
    return cmocka_run_group_tests(tests, make_one_run, remove_run);
}
