// Defects for tests: the emulated build can leave a statement out, by name and at run time, to show
// that the tests notice. Compiled by nvcc this is the statement and nothing else.
//
//   OCTAVO_UNLESS_PLANTED("paged_decode.ring_ready", __syncwarp());
#ifndef OCTAVO_WORKER_CUDA_KERNELS_PLANT_CUH_
#define OCTAVO_WORKER_CUDA_KERNELS_PLANT_CUH_

#ifdef OCTAVO_EMULATION
#define OCTAVO_UNLESS_PLANTED(bug, ...)         \
  do {                                          \
    if (!::octavo::emulation::IsPlanted(bug)) { \
      __VA_ARGS__;                              \
    }                                           \
  } while (false)
// The value to use: `wrong` once the bug is planted.
#define OCTAVO_PLANTED_VALUE(bug, right, wrong) \
  (::octavo::emulation::IsPlanted(bug) ? (wrong) : (right))
#else
#define OCTAVO_UNLESS_PLANTED(bug, ...) \
  do {                                  \
    __VA_ARGS__;                        \
  } while (false)
#define OCTAVO_PLANTED_VALUE(bug, right, wrong) (right)
#endif

#endif  // OCTAVO_WORKER_CUDA_KERNELS_PLANT_CUH_
