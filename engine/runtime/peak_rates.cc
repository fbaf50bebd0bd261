#include "engine/runtime/peak_rates.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "engine/runtime/module_architectures.h"

namespace gpupool::engine {
namespace {

// FLOPs of a multiprocessor in one clock, for GPUs from a compute capability
// (80 is 8.0) up to the next row.
struct ClockFlops {
  int capability;
  double float32;
  double tf32;
  double half;
};

constexpr ClockFlops kClockFlops[] = {
    {70, 128, 128, 1024},    // Volta, Turing: no TF32
    {80, 128, 1024, 2048},   // A100
    {86, 256, 512, 1024},    // Ampere and Ada for graphics and inference
    {90, 256, 2048, 4096},   // Hopper
    {100, 256, 4096, 8192},  // Blackwell of data centers
    {120, 256, 512, 1024},   // Blackwell for graphics
};
// The first capability that the table does not cover.
constexpr int kUnknownCapability = 130;

// Returns the clock in Hz: the highest if it is known, else the present one,
// else 0.
double ClockOf(absl::string_view cpuinfo, absl::string_view most_khz) {
  double clock = 0;
  if (absl::SimpleAtod(most_khz, &clock) && clock > 0) return 1e3 * clock;
  if (!absl::SimpleAtod(ProcessorField(cpuinfo, "cpu MHz"), &clock)) return 0;
  return clock > 0 ? 1e6 * clock : 0;
}

}  // namespace

absl::string_view ProcessorField(absl::string_view cpuinfo,
                                 absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(cpuinfo, '\n')) {
    const std::pair<absl::string_view, absl::string_view> field =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(field.first) == name) {
      return absl::StripAsciiWhitespace(field.second);
    }
  }
  return "";
}

PeakRates PeakRatesOf(const DeviceFacts& facts) {
  const int capability = ParseCapability(facts.compute_capability).value_or(0);
  PeakRates rates;
  // The bus moves two words in each clock.
  rates.bytes =
      2.0 * 1e3 * facts.memory_clock_khz * facts.memory_bus_bits / 8.0;
  if (capability >= kUnknownCapability) return rates;
  const double clocks = 1e3 * facts.clock_khz * facts.multiprocessors;
  for (const ClockFlops& row : kClockFlops) {
    if (capability < row.capability) break;
    rates.float32_flops = clocks * row.float32;
    rates.tf32_flops = clocks * row.tf32;
    rates.half_flops = clocks * row.half;
  }
  return rates;
}

PeakRates PeakRatesOf(absl::string_view cpuinfo, absl::string_view most_khz,
                      int threads) {
  const double hertz = ClockOf(cpuinfo, most_khz);
  if (hertz == 0) return {};
  const std::vector<absl::string_view> flags =
      absl::StrSplit(ProcessorField(cpuinfo, "flags"), absl::ByAnyChar(" \t"),
                     absl::SkipEmpty());
  if (flags.empty()) return {};
  const auto has = [&](absl::string_view flag) {
    return std::find(flags.begin(), flags.end(), flag) != flags.end();
  };
  // Two units, two FLOPs a lane: 16, 8 or 4 lanes of float32. Without
  // multiply-adds a unit does one FLOP a lane.
  const double float32 = has("avx512f") ? 64 : has("fma") ? 32 : 8;
  double half = float32;
  if (has("avx512_bf16")) half = 2 * float32;
  // A tile product of 16 x 16 x 32 takes 16 clocks.
  if (has("amx_bf16")) half = 1024;
  const double clocks = hertz * threads;
  return {.float32_flops = clocks * float32,
          .tf32_flops = clocks * float32,
          .half_flops = clocks * half};
}

}  // namespace gpupool::engine
