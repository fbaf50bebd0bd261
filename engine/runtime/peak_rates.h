// The rates that a device reaches at most, computed from its clock, its units
// and its memory bus. Nothing is measured.
//
// Thread-safety: pure functions.
#pragma once

#include "absl/strings/string_view.h"
#include "engine/runtime/device_facts.h"

namespace gpupool::engine {

// Rates per second; 0 if unknown. A multiply-add counts as two FLOPs.
struct PeakRates {
  double float32_flops = 0;
  double tf32_flops = 0;  // of products
  double half_flops = 0;  // of products in bfloat16 or float16
  double bytes = 0;       // of the device's memory

  friend bool operator==(const PeakRates&, const PeakRates&) = default;
};

// Returns the rates of a GPU. FLOPs for each clock of a multiprocessor are
// those of NVIDIA's white papers (Volta, Turing, Ampere, Ada, Hopper,
// Blackwell), for dense operands. Cards with the same compute capability have
// the rates of the fastest one. GPUs without a clock or of an unknown
// generation have none.
PeakRates PeakRatesOf(const DeviceFacts& facts);

// Returns the rates of `threads` cores of the processor that `cpuinfo`
// describes in the format of /proc/cpuinfo. `most_khz` is the text of Linux's
// cpufreq/cpuinfo_max_freq; empty on machines without it, where the present
// clock counts. Each core is taken to have two units for vector multiply-adds.
// A processor without x86's "flags" has no rates. The rate of the memory is
// unknown.
PeakRates PeakRatesOf(absl::string_view cpuinfo, absl::string_view most_khz,
                      int threads);

// Returns the value of the first line "name : value" of `cpuinfo`; empty when
// there is none. It refers to `cpuinfo`.
absl::string_view ProcessorField(absl::string_view cpuinfo,
                                 absl::string_view name);

}  // namespace gpupool::engine
