/* cases_nccl.c - groups of ranks, one process each: the program forks before it touches a
 * device, as a training run with several GPUs does. */
#include <nccl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/standins/cases.h"

#define RANKS 3
#define COUNT 300000 // several slots of the shared memory
#define OK(call) EXPECT((call) == ncclSuccess)

static ncclComm_t group;
static cudaStream_t stream;

// Runs the rank's part in RANKS processes; the largest exit code of the children.
static int in_group(int ranks, void (*part)(int rank))
{
    ncclUniqueId id;
    pid_t children[RANKS];
    int worst = 0, status;
    OK(ncclGetUniqueId(&id));
    for (int rank = 0; rank < ranks; rank++) {
        children[rank] = fork();
        if (children[rank])
            continue;
        stream = new_stream();
        OK(ncclCommInitRank(&group, ranks, id, rank));
        part(rank);
        fflush(stdout);
        exit(0);
    }
    for (int rank = 0; rank < ranks; rank++) {
        EXPECT(waitpid(children[rank], &status, 0) == children[rank]);
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0; // a killed one is planted
        worst = code > worst ? code : worst;
    }
    return worst;
}

static void *upload(const void *host, size_t bytes)
{
    void *there = device_block(bytes);
    MUST(cudaMemcpyAsync(there, host, bytes, cudaMemcpyHostToDevice, stream));
    return there;
}

static void download(void *host, const void *there, size_t bytes)
{
    MUST(cudaMemcpyAsync(host, there, bytes, cudaMemcpyDeviceToHost, stream));
    MUST(cudaStreamSynchronize(stream));
}

/* ---- right uses ----------------------------------------------------------------- */

static void check_f32(int rank)
{
    static float host[COUNT];
    static const ncclRedOp_t ops[] = {ncclSum, ncclMax, ncclMin, ncclAvg};
    for (int o = 0; o < 4; o++) {
        for (int i = 0; i < COUNT; i++)
            host[i] = (float)((rank + 1) * (i % 100 - 50));
        float *there = upload(host, sizeof host);
        OK(ncclAllReduce(there, there, COUNT, ncclFloat32, ops[o], group, stream));
        download(host, there, sizeof host);
        for (int i = 0; i < COUNT; i++) {
            float unit = (float)(i % 100 - 50), most = unit > 0 ? 3 * unit : unit;
            float least = unit > 0 ? unit : 3 * unit;
            float want[] = {6 * unit, most, least, 2 * unit};
            EXPECT(host[i] == want[o]);
        }
    }
}

static void check_others(int rank)
{
    _Float16 half[3] = {(_Float16)(rank + 1), 60000, (_Float16)0.5f};
    double wide[2] = {rank + 0.5, 1e300};
    int64_t whole[2] = {rank, -1};
    int small[2] = {rank, 7};
    void *a = upload(half, sizeof half), *b = upload(wide, sizeof wide);
    void *c = upload(whole, sizeof whole), *d = upload(small, sizeof small);
    OK(ncclGroupStart());
    OK(ncclAllReduce(a, a, 3, ncclFloat16, ncclSum, group, stream));
    OK(ncclAllReduce(b, b, 2, ncclFloat64, ncclSum, group, stream));
    OK(ncclGroupEnd());
    OK(ncclAllReduce(c, c, 2, ncclInt64, ncclMax, group, stream));
    OK(ncclBroadcast(d, d, 2, ncclInt32, 2, group, stream));
    download(half, a, sizeof half);
    download(wide, b, sizeof wide);
    download(whole, c, sizeof whole);
    download(small, d, sizeof small);
    EXPECT((float)half[0] == 6 && (float)half[2] == 1.5f);
    EXPECT((float)half[1] > 65504); // what does not fit is inf
    EXPECT(wide[0] == 4.5 && wide[1] == 3e300);
    EXPECT(whole[0] == 2 && whole[1] == -1 && small[0] == 2 && small[1] == 7);
}

static void all_types(int rank)
{
    check_f32(rank);
    check_others(rank);
    OK(ncclCommDestroy(group));
}

static void collectives_are_right(void)
{
    EXPECT(in_group(RANKS, all_types) == 0);
}

static void capture_sum(int rank)
{
    float value = (float)(rank + 1);
    float *there = upload(&value, sizeof value);
    cudaGraph_t captured;
    cudaGraphExec_t ready;
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(ncclAllReduce(there, there, 1, ncclFloat32, ncclSum, group, stream));
    MUST(cudaStreamEndCapture(stream, &captured));
    MUST(cudaGraphInstantiate(&ready, captured, 0));
    for (int i = 0; i < 3; i++)
        MUST(cudaGraphLaunch(ready, stream));
    download(&value, there, sizeof value);
    EXPECT(value == 12); // 1 + 2, then doubled twice
}

static void a_collective_is_captured(void)
{
    EXPECT(in_group(2, capture_sum) == 0);
}

// Rank 1 waits for a word of rank 0, and rank 0 for its device: nobody waits for rank
// 1's.
static int words[2];

static void wait_for_a_word(int rank)
{
    float value = (float)rank;
    char word = 'w';
    float *there = upload(&value, sizeof value);
    OK(ncclAllReduce(there, there, 1, ncclFloat32, ncclSum, group, stream));
    if (rank == 1) {
        EXPECT(read(words[0], &word, 1) == 1);
    } else {
        download(&value, there, sizeof value);
        EXPECT(write(words[1], &word, 1) == 1 && value == 1);
    }
}

static void devices_work_while_hosts_talk(void)
{
    EXPECT(pipe(words) == 0);
    EXPECT(in_group(2, wait_for_a_word) == 0);
}

/* ---- faults --------------------------------------------------------------------- */

static void lose_rank_1(int rank)
{
    float value = 1;
    ncclResult_t state;
    if (rank == 1)
        kill(getpid(), SIGKILL);
    float *there = upload(&value, sizeof value);
    OK(ncclAllReduce(there, there, 1, ncclFloat32, ncclSum, group, stream));
    MUST(cudaStreamSynchronize(stream));
    OK(ncclCommGetAsyncError(group, &state));
    EXPECT(state == ncclRemoteError);
    EXPECT(ncclAllReduce(there, there, 1, ncclFloat32, ncclSum, group, stream) ==
           ncclRemoteError);
    OK(ncclCommAbort(group));
    printf("lost: %s\n", ncclGetErrorString(state));
}

static void rank_that_is_killed(void)
{
    EXPECT(in_group(2, lose_rank_1) == 0);
}

static void leave_early(int rank)
{
    float value = 1;
    ncclResult_t state;
    if (rank == 1)
        return;
    float *there = upload(&value, sizeof value);
    OK(ncclAllReduce(there, there, 1, ncclFloat32, ncclSum, group, stream));
    MUST(cudaStreamSynchronize(stream));
    OK(ncclCommGetAsyncError(group, &state));
    EXPECT(state == ncclRemoteError);
    printf("lost: %s\n", ncclGetErrorString(state));
}

static void rank_that_ends_early(void)
{
    EXPECT(in_group(2, leave_early) == 0);
}

static void never_come(int rank)
{
    float value = 1;
    ncclResult_t state;
    if (rank == 1) {
        sleep(2);
        _exit(0);
    }
    float *there = upload(&value, sizeof value);
    OK(ncclAllReduce(there, there, 1, ncclFloat32, ncclSum, group, stream));
    MUST(cudaStreamSynchronize(stream));
    OK(ncclCommGetAsyncError(group, &state));
    EXPECT(state == ncclRemoteError);
    printf("lost: %s\n", ncclGetErrorString(state));
}

static void rank_that_never_comes(void)
{
    EXPECT(in_group(2, never_come) == 0);
}

static void disagree(int rank)
{
    float values[2] = {1, 2};
    float *there = upload(values, sizeof values);
    OK(ncclAllReduce(there, there, (size_t)rank + 1, ncclFloat32, ncclSum, group,
                     stream));
    MUST(cudaStreamSynchronize(stream));
}

static void ranks_that_disagree(void)
{
    exit(in_group(2, disagree));
}

static void reduce_host_memory(int rank)
{
    float value = (float)rank;
    EXPECT(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, group, stream) ==
           ncclInvalidArgument);
}

static void collective_of_host_memory(void)
{
    exit(in_group(2, reduce_host_memory));
}

#define CASE(name)  \
    {               \
#name, name \
    }

int main(int argc, char **argv)
{
    static const struct named_case cases[] = {
        CASE(collectives_are_right),         CASE(a_collective_is_captured),
        CASE(devices_work_while_hosts_talk), CASE(rank_that_is_killed),
        CASE(rank_that_ends_early),          CASE(rank_that_never_comes),
        CASE(ranks_that_disagree),           CASE(collective_of_host_memory),
    };
    return run_case(cases, sizeof cases / sizeof *cases, argc, argv);
}
