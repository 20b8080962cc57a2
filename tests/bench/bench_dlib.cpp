/* bench_dlib.cpp - what dlib takes for one training step of the networks that twinscale trains:
 * the work of bench_torch.py, in float32. Debian's packages libdlib-dev, libblas-dev,
 * liblapack-dev and, for the speed of its products, libopenblas0-pthread.
 *     g++ -O3 -march=native -std=c++14 bench_dlib.cpp -o bench_dlib -ldlib -lblas -llapack
 *     OPENBLAS_NUM_THREADS=2 bench_dlib fmnist-quick|dcgan64 THREADS STEPS
 * THREADS is only printed: OpenBLAS alone has threads here, dlib's own loops have none.
 * What differs: dlib computes the gradient of the images in D's own turn too, and its backward
 * overwrites weight gradients, so that those of the reals are kept and added by hand. In G's
 * turn D's weight gradients are left out, which dlib can.
 * Prints one JSON line with the median time of a step in milliseconds. */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <dlib/dnn.h>
#include <dlib/revision.h>

namespace
{
using namespace dlib;
constexpr int BATCH = 64, WARM_UP = 2;

template <int outputs, class below>
using down = add_layer<con_<outputs, 4, 4, 2, 2, 1, 1>, below>;
template <int outputs, class below>
using norm_down = leaky_relu<bn_con<down<outputs, below>>>;
template <int outputs, class below>
using transpose = add_layer<cont_<outputs, 4, 4, 2, 2, 1, 1>, below>;
template <int outputs, class below> using up = relu<bn_con<transpose<outputs, below>>>;
using source = input<matrix<float>>;

struct fmnist_quick {
    static constexpr int latent = 64, channels = 1, size = 28;
    using dense = extract<0, 48, 7, 7, fc_no_bias<48 * 7 * 7, source>>;
    using g = htan<transpose<1, up<24, relu<bn_con<dense>>>>>;
    using d = loss_binary_log<fc<1, norm_down<48, leaky_relu<down<24, source>>>>>;
};

struct dcgan64 {
    static constexpr int latent = 100, channels = 3, size = 64;
    using first = relu<bn_con<add_layer<cont_<512, 4, 4, 1, 1, 0, 0>, source>>>;
    using g = htan<transpose<3, up<64, up<128, up<256, first>>>>>;
    using maps =
        norm_down<512, norm_down<256, norm_down<128, leaky_relu<down<64, source>>>>>;
    using d = loss_binary_log<add_layer<con_<1, 4, 4, 1, 1, 0, 0>, maps>>;
};

/* Sets what the types above leave open: no bias on convolutions, the slope of leaky ReLU. */
struct settings {
    template <long n, long h, long w, int sy, int sx, int py, int px>
    void operator()(con_<n, h, w, sy, sx, py, px> &layer) const
    {
        layer.disable_bias();
    }
    template <long n, long h, long w, int sy, int sx, int py, int px>
    void operator()(cont_<n, h, w, sy, sx, py, px> &layer) const
    {
        layer.disable_bias();
    }
    void operator()(leaky_relu_ &layer) const
    {
        layer = leaky_relu_(0.2f);
    }
    template <class other> void operator()(other &) const
    {
    }
};

template <class nets> class trainer
{
  public:
    trainer()
        : adams_g(64, adam(0, 0.5f, 0.999f)), adams_d(adams_g), is_real(BATCH, 1.0f),
          is_fake(BATCH, -1.0f)
    {
        prepare(g);
        prepare(d);
        real.set_size(BATCH, nets::channels, nets::size, nets::size);
        for (float &pixel : real)
            pixel = 2 * random.get_random_float() - 1;
        z.set_size(BATCH, nets::latent, 1, 1);
    }

    void step()
    {
        set_all_learning_rate_multipliers(d, 1);
        judge(real, is_real);
        size_t count = 0;
        visit_layer_parameter_gradients(d, [&](tensor &gradient) {
            kept.resize(std::max(kept.size(), ++count));
            kept[count - 1].copy_size(gradient);
            memcpy(kept[count - 1], gradient);
        });

        for (float &latent : z)
            latent = static_cast<float>(random.get_random_gaussian());
        const tensor &fake = g.forward(z);
        judge(fake, is_fake);
        count = 0;
        visit_layer_parameter_gradients(
            d, [&](tensor &gradient) { tt::add(gradient, gradient, kept[count++]); });
        d.update_parameters(adams_d, 2e-4);

        set_all_learning_rate_multipliers(d, 0);
        judge(fake, is_real);
        g.back_propagate_error(z, d.subnet().get_final_data_gradient());
        g.update_parameters(adams_g, 2e-4);
    }

  private:
    template <class net> static void prepare(net &layers)
    {
        // A network takes tensors only after it has made one itself.
        matrix<float> image = zeros_matrix<float>(nets::size, nets::size);
        resizable_tensor unused;
        layers.to_tensor(&image, &image + 1, unused);
        visit_computational_layers(layers, settings());
    }

    void judge(const tensor &images, const std::vector<float> &labels)
    {
        d.compute_loss(images, labels.begin());
        d.back_propagate_error(images);
    }

    typename nets::g g;
    typename nets::d d;
    std::vector<adam> adams_g, adams_d;
    std::vector<float> is_real, is_fake;
    std::vector<resizable_tensor> kept;
    resizable_tensor real, z;
    dlib::rand random;
};

template <class nets> double median_ms(int steps)
{
    trainer<nets> trainer;
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
    std::string net = argc == 4 ? argv[1] : "";
    int threads = argc == 4 ? std::atoi(argv[2]) : 0,
        steps = argc == 4 ? std::atoi(argv[3]) : 0;
    if ((net != "fmnist-quick" && net != "dcgan64") || threads < 1 || steps < 1) {
        std::fprintf(stderr, "usage: bench_dlib fmnist-quick|dcgan64 THREADS STEPS\n");
        return 2;
    }
    double ms =
        net == "dcgan64" ? median_ms<dcgan64>(steps) : median_ms<fmnist_quick>(steps);
    std::printf("{\"net\": \"%s\", \"program\": \"dlib %d.%d\", \"precision\": \"fp32\", "
                "\"threads\": %d, \"batch\": %d, \"steps\": %d, \"ms_per_step\": %.3f}\n",
                net.c_str(), DLIB_MAJOR_VERSION, DLIB_MINOR_VERSION, threads, BATCH,
                steps, ms);
    return 0;
}
