/* bench_libtorch.cpp - what libtorch takes for one training step of the networks that twinscale
 * trains: the work of bench_torch.py from C++, in float32 or under the CPU's bfloat16 autocast.
 *     T=$(python3 -c 'import torch, os; print(os.path.dirname(torch.__file__))')
 *     g++ -O2 -std=c++20 -I$T/include -I$T/include/torch/csrc/api/include \
 *         bench_libtorch.cpp -o bench_libtorch -L$T/lib -Wl,--no-as-needed,-rpath,$T/lib \
 *         -ltorch -ltorch_cpu -lc10
 *     bench_libtorch fmnist-quick|dcgan64 fp32|bf16 contiguous|channels_last THREADS STEPS
 * OMP_WAIT_POLICY=passive in its environment keeps it usable on a machine with other work.
 * Prints one JSON line with the median time of a step in milliseconds. */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <ATen/autocast_mode.h>
#include <torch/torch.h>

namespace
{
constexpr int BATCH = 64, WARM_UP = 3;
using torch::nn::Sequential;

struct pair {
    Sequential g, d;
    int latent, channels, size;
};

void add_down(Sequential &net, int inputs, int outputs, bool has_norm = true)
{
    using namespace torch::nn;
    net->push_back(
        Conv2d(Conv2dOptions(inputs, outputs, 4).stride(2).padding(1).bias(false)));
    if (has_norm)
        net->push_back(BatchNorm2d(outputs));
    net->push_back(LeakyReLU(LeakyReLUOptions().negative_slope(0.2).inplace(true)));
}

void add_relu(Sequential &net, int channels)
{
    using namespace torch::nn;
    net->push_back(BatchNorm2d(channels));
    net->push_back(ReLU(ReLUOptions(true)));
}

void add_transpose(Sequential &net, int inputs, int outputs, int stride = 2,
                   int padding = 1)
{
    net->push_back(
        torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(inputs, outputs, 4)
                                       .stride(stride)
                                       .padding(padding)
                                       .bias(false)));
}

pair fmnist_quick()
{
    using namespace torch::nn;
    pair nets{{}, {}, 64, 1, 28};
    nets.g->push_back(Flatten());
    nets.g->push_back(Linear(LinearOptions(64, 7 * 7 * 48).bias(false)));
    nets.g->push_back(Unflatten(UnflattenOptions(1, {48, 7, 7})));
    add_relu(nets.g, 48);
    add_transpose(nets.g, 48, 24);
    add_relu(nets.g, 24);
    add_transpose(nets.g, 24, 1);
    nets.g->push_back(Tanh());
    add_down(nets.d, 1, 24, false);
    add_down(nets.d, 24, 48);
    nets.d->push_back(Flatten());
    nets.d->push_back(Linear(7 * 7 * 48, 1));
    return nets;
}

pair dcgan64()
{
    using namespace torch::nn;
    pair nets{{}, {}, 100, 3, 64};
    add_transpose(nets.g, 100, 512, 1, 0);
    add_relu(nets.g, 512);
    for (int channels = 512; channels > 64; channels /= 2) {
        add_transpose(nets.g, channels, channels / 2);
        add_relu(nets.g, channels / 2);
    }
    add_transpose(nets.g, 64, 3);
    nets.g->push_back(Tanh());
    add_down(nets.d, 3, 64, false);
    for (int channels = 64; channels < 512; channels *= 2)
        add_down(nets.d, channels, 2 * channels);
    nets.d->push_back(Conv2d(Conv2dOptions(512, 1, 4).bias(false)));
    return nets;
}

/* The module has no to(memory_format) in C++: every kernel is laid out by itself. */
void lay_out(Sequential &net, at::MemoryFormat format)
{
    torch::NoGradGuard no_grad;
    for (torch::Tensor &weight : net->parameters())
        if (weight.dim() == 4)
            weight.set_data(weight.contiguous(format));
}

/* Both networks' forwards run under one of these where the precision is bf16. */
class autocast
{
  public:
    explicit autocast(bool is_wanted) : is_on(is_wanted)
    {
        at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
        at::autocast::set_autocast_enabled(at::kCPU, is_wanted);
    }
    ~autocast()
    {
        at::autocast::set_autocast_enabled(at::kCPU, false);
        if (is_on)
            at::autocast::clear_cache();
    }

  private:
    bool is_on;
};

class trainer
{
  public:
    trainer(const pair &both, const std::string &precision, at::MemoryFormat format)
        : nets(both), is_bf16(precision == "bf16"),
          adam_g(nets.g->parameters(), options()),
          adam_d(nets.d->parameters(), options()), ones(torch::ones(BATCH)),
          zeros(torch::zeros(BATCH)),
          real(torch::rand({BATCH, nets.channels, nets.size, nets.size})
                   .mul_(2)
                   .sub_(1)
                   .contiguous(format))
    {
    }

    void step()
    {
        adam_d.zero_grad();
        loss(real, ones).backward();
        torch::Tensor fake = draw();
        loss(fake.detach(), zeros).backward();
        adam_d.step();
        adam_g.zero_grad();
        loss(fake, ones).backward();
        adam_g.step();
    }

  private:
    static torch::optim::AdamOptions options()
    {
        return torch::optim::AdamOptions(2e-4).betas({0.5, 0.999});
    }

    torch::Tensor draw()
    {
        autocast scope(is_bf16);
        return nets.g->forward(torch::randn({BATCH, nets.latent, 1, 1}));
    }

    torch::Tensor judge(const torch::Tensor &images)
    {
        autocast scope(is_bf16);
        return nets.d->forward(images).view(-1);
    }

    torch::Tensor loss(const torch::Tensor &images, const torch::Tensor &labels)
    {
        return torch::binary_cross_entropy_with_logits(judge(images).to(torch::kFloat),
                                                       labels);
    }

    pair nets;
    bool is_bf16;
    torch::optim::Adam adam_g, adam_d;
    torch::Tensor ones, zeros, real;
};

double median_ms(trainer &trainer, int steps)
{
    std::vector<double> times;
    for (int i = 0; i < WARM_UP + steps; i++) {
        auto begin = std::chrono::steady_clock::now();
        trainer.step();
        std::chrono::duration<double, std::milli> ms =
            std::chrono::steady_clock::now() - begin;
        if (i >= WARM_UP)
            times.push_back(ms.count());
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
}
} // namespace

int main(int argc, char **argv)
{
    std::vector<std::string> args(argv + 1, argv + argc);
    args.resize(5);
    const std::string &net = args[0], &precision = args[1], &format = args[2];
    int threads = std::atoi(args[3].c_str()), steps = std::atoi(args[4].c_str());
    if (argc != 6 || (net != "fmnist-quick" && net != "dcgan64") ||
        (precision != "fp32" && precision != "bf16") ||
        (format != "contiguous" && format != "channels_last") || threads < 1 ||
        steps < 1) {
        std::fprintf(stderr, "usage: bench_libtorch fmnist-quick|dcgan64 fp32|bf16 "
                             "contiguous|channels_last THREADS STEPS\n");
        return 2;
    }
    at::set_num_threads(threads);
    torch::manual_seed(0);
    at::MemoryFormat memory = format == "channels_last" ? at::MemoryFormat::ChannelsLast
                                                        : at::MemoryFormat::Contiguous;
    pair nets = net == "dcgan64" ? dcgan64() : fmnist_quick();
    lay_out(nets.g, memory);
    lay_out(nets.d, memory);
    trainer trainer(nets, precision, memory);
    double ms = median_ms(trainer, steps);
    std::printf("{\"net\": \"%s\", \"program\": \"libtorch %s\", \"precision\": \"%s\", "
                "\"format\": \"%s\", \"threads\": %d, \"batch\": %d, \"steps\": %d, "
                "\"ms_per_step\": %.3f}\n",
                net.c_str(), TORCH_VERSION, precision.c_str(), format.c_str(), threads,
                BATCH, steps, ms);
    return 0;
}
