// Float32 multiply-adds that stay in registers: no matrix product on these
// cores can be faster. The loop has enough independent chains that only the
// arithmetic units limit it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "benchmarks/peak_rate.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include "benchmarks/peak_rate.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

float MultiplyAddAll(int64_t rounds, float factor, float addend,
                     int64_t* operations) {
  const hn::CappedTag<float, 16> d;
  const auto f = hn::Set(d, factor);
  const auto a = hn::Set(d, addend);
  // The numbers must differ, or the compiler would see only one chain.
  const auto start = hn::Iota(d, 0.0f);
  auto s0 = start, s1 = hn::Add(s0, f), s2 = hn::Add(s1, f);
  auto s3 = hn::Add(s2, f), s4 = hn::Add(s3, f), s5 = hn::Add(s4, f);
  auto s6 = hn::Add(s5, f), s7 = hn::Add(s6, f), s8 = hn::Add(s7, f);
  auto s9 = hn::Add(s8, f), s10 = hn::Add(s9, f), s11 = hn::Add(s10, f);
  for (int64_t i = 0; i < rounds; ++i) {
    s0 = hn::MulAdd(s0, f, a);
    s1 = hn::MulAdd(s1, f, a);
    s2 = hn::MulAdd(s2, f, a);
    s3 = hn::MulAdd(s3, f, a);
    s4 = hn::MulAdd(s4, f, a);
    s5 = hn::MulAdd(s5, f, a);
    s6 = hn::MulAdd(s6, f, a);
    s7 = hn::MulAdd(s7, f, a);
    s8 = hn::MulAdd(s8, f, a);
    s9 = hn::MulAdd(s9, f, a);
    s10 = hn::MulAdd(s10, f, a);
    s11 = hn::MulAdd(s11, f, a);
  }
  *operations = rounds * 12 * 2 * static_cast<int64_t>(hn::Lanes(d));
  s0 = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(s4, s5));
  s6 = hn::Add(hn::Add(hn::Add(s6, s7), hn::Add(s8, s9)), hn::Add(s10, s11));
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s6)));
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool {

HWY_EXPORT(MultiplyAddAll);

int64_t MultiplyAdd(int64_t rounds, float* result) {
  int64_t operations = 0;
  *result =
      HWY_DYNAMIC_DISPATCH(MultiplyAddAll)(rounds, *result, 1e-3f, &operations);
  return operations;
}

}  // namespace gpupool
#endif  // HWY_ONCE
