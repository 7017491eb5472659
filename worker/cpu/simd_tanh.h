// The hyperbolic tangent of 16 floats. Per instruction set.
#ifndef OCTAVO_WORKER_CPU_SIMD_TANH_H_
#define OCTAVO_WORKER_CPU_SIMD_TANH_H_

#include "worker/cpu/simd_bits.h"

namespace octavo {
namespace OCTAVO_SIMD {

// x P(x^2) / Q(x^2), a minimax fit on [-9, 9], beyond which float's tanh is 1 (Eigen's
// generic_fast_tanh_float). Within 4 units in the last place, odd, and at most 1.
OCTAVO_SIMD_INLINE Vec Tanh(Vec x) {
  const Vec limit = Set1(7.90531110763549805f);
  x = Max(Sub(Zero(), limit), x);
  x = Sub(Zero(), Max(Sub(Zero(), limit), Sub(Zero(), x)));
  const Vec square = Mul(x, x);
  Vec p = Set1(-2.76076847742355e-16f);
  p = Fma(p, square, Set1(2.00018790482477e-13f));
  p = Fma(p, square, Set1(-8.60467152213735e-11f));
  p = Fma(p, square, Set1(5.12229709037114e-08f));
  p = Fma(p, square, Set1(1.48572235717979e-05f));
  p = Fma(p, square, Set1(6.37261928875436e-04f));
  p = Fma(p, square, Set1(4.89352455891786e-03f));
  Vec q = Set1(1.19825839466702e-06f);
  q = Fma(q, square, Set1(1.18534705686654e-04f));
  q = Fma(q, square, Set1(2.26843463243900e-03f));
  q = Fma(q, square, Set1(4.89352518554385e-03f));
  return Div(Mul(x, p), q);
}

}  // namespace OCTAVO_SIMD
}  // namespace octavo

#endif  // OCTAVO_WORKER_CPU_SIMD_TANH_H_
