/* body.h - all kernels of one instruction set, and their table.
 * Flow:  isa_NAME.c defines ISA and ISA_NAME and includes this; CMake gives that file its
 *        flags. */
#include "kernels/cpu/body_finish.h"
#include "kernels/cpu/body_flat.h"
#include "kernels/cpu/body_gemm.h"
#include "kernels/cpu/body_norm.h"
#include "kernels/cpu/body_pack.h"
#include "kernels/cpu/body_pairs.h"
#include "kernels/cpu/body_peak.h"
#include "kernels/cpu/body_resample.h"
#include "kernels/cpu/body_survey.h"
#include "kernels/cpu/body_winograd.h"

#define BODY_JOIN(a, b) a##b
#define BODY_TABLE(name) BODY_JOIN(isa_, name)

#ifdef HAS_PAIRS
static const struct isa pairs_table = {
    .name = ISA_NAME,
    .tile_rows = TILE_ROWS,
    .tile_cols = TILE_COLS,
    .per_float = 2,
    .arithmetic = DTYPE_BF16,
    .per_vector = 2 * LANES,
    .peak = pairs_peak,
    .pack_window = pairs_window,
    .pack_right = pairs_right,
    .pack_right_turned = pairs_right_turned,
    .pack_left_panels = pairs_left_panels,
    .pack_right_window = pairs_right_window,
    .multiply_rows = pairs_multiply_rows,
    .multiply_panels = pairs_multiply_panels,
    .finish_rows = finish_rows,
    .finish_flat = finish_flat,
    .finish_grad = finish_grad,
};
#endif

const struct isa BODY_TABLE(ISA) = {
    .name = ISA_NAME,
    .tile_rows = TILE_ROWS,
    .tile_cols = TILE_COLS,
    .per_float = 1,
#ifdef HAS_PAIRS
    .pairs = &pairs_table,
#endif
    .arithmetic = DTYPE_F32,
    .per_vector = LANES,
    .peak = floats_peak,
    .pack_window = pack_window,
    .pack_right = pack_right,
    .pack_right_turned = pack_right_turned,
    .pack_left_panels = pack_left_panels,
    .pack_right_window = pack_right_window,
    .multiply_rows = multiply_rows,
    .multiply_panels = multiply_panels,
    .multiply_thin = multiply_thin,
    .finish_rows = finish_rows,
    .finish_flat = finish_flat,
    .finish_grad = finish_grad,
    .wino_transform_x = wino_transform_x,
    .wino_transform_dy = wino_transform_dy,
    .wino_weights_forward = wino_weights_forward,
    .wino_weights_dgrad = wino_weights_dgrad,
    .wino_multiply_rows = wino_multiply_rows,
    .wino_multiply_columns = wino_multiply_columns,
    .wino_output_transform_y = wino_output_transform_y,
    .wino_output_transform_dx = wino_output_transform_dx,
    .wino_output_transform_dw = wino_output_transform_dw,
    .channel_sums = channel_sums,
    .norm_forward = norm_forward,
    .norm_reduce = norm_reduce,
    .norm_dgrad = norm_dgrad,
    .activate = activate,
    .activate_backward = activate_backward,
    .cast = cast,
    .add_tensors = add_tensors,
    .add = add,
    .resample_down = resample_down,
    .resample_up = resample_up,
    .survey = survey,
    .grads_check = grads_check,
    .scale = scale,
    .adam = adam,
    .ema = ema,
};
