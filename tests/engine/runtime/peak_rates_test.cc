#include "engine/runtime/peak_rates.h"

#include <gtest/gtest.h>

#include <string>

namespace gpupool::engine {
namespace {

DeviceFacts Gpu(const std::string& capability) {
  DeviceFacts facts;
  facts.compute_capability = capability;
  facts.multiprocessors = 132;
  facts.clock_khz = 1'830'000;
  facts.memory_clock_khz = 2'619'000;
  facts.memory_bus_bits = 5120;
  return facts;
}

TEST(PeakRatesTest, OfAnH100AreThoseOfItsDataSheet) {
  const PeakRates rates = PeakRatesOf(Gpu("9.0"));
  EXPECT_NEAR(rates.float32_flops, 61.8e12, 0.2e12);
  EXPECT_NEAR(rates.tf32_flops, 494.7e12, 0.5e12);
  EXPECT_NEAR(rates.half_flops, 989.4e12, 0.5e12);
  EXPECT_NEAR(rates.bytes, 3.352e12, 0.01e12);
}

TEST(PeakRatesTest, BeforeAmpereThereIsNoTf32) {
  const PeakRates turing = PeakRatesOf(Gpu("7.5"));
  EXPECT_GT(turing.float32_flops, 0);
  EXPECT_EQ(turing.tf32_flops, turing.float32_flops);
  EXPECT_GT(PeakRatesOf(Gpu("8.0")).tf32_flops, turing.tf32_flops);
}

TEST(PeakRatesTest, AGenerationBeginsAtItsFirstCapability) {
  EXPECT_EQ(PeakRatesOf(Gpu("8.9")), PeakRatesOf(Gpu("8.6")));
  EXPECT_NE(PeakRatesOf(Gpu("8.6")), PeakRatesOf(Gpu("8.0")));
  EXPECT_EQ(PeakRatesOf(Gpu("12.9")), PeakRatesOf(Gpu("12.0")));
}

TEST(PeakRatesTest, UnknownGenerationsHaveOnlyTheRateOfTheirMemory) {
  for (const char* capability : {"6.1", "13.0", ""}) {
    const PeakRates rates = PeakRatesOf(Gpu(capability));
    EXPECT_EQ(rates.float32_flops, 0) << capability;
    EXPECT_EQ(rates.half_flops, 0) << capability;
    EXPECT_GT(rates.bytes, 0) << capability;
  }
}

TEST(PeakRatesTest, WithoutAClockThereAreNone) {
  DeviceFacts facts = Gpu("9.0");
  facts.clock_khz = 0;
  facts.memory_bus_bits = 0;
  EXPECT_EQ(PeakRatesOf(facts), PeakRates());
}

TEST(PeakRatesTest, OfAProcessorFollowItsClockItsVectorsAndTheThreads) {
  const auto rate = [](const std::string& flags, int threads) {
    return PeakRatesOf(
        "processor\t: 0\nmodel name\t: a: b\ncpu MHz\t\t: "
        "2000.000\nflags\t\t: fpu " +
            flags + "\n\nprocessor\t: 1\ncpu MHz\t\t: 900\n",
        "", threads);
  };
  EXPECT_EQ(rate("sse2", 1).float32_flops, 16e9);
  EXPECT_EQ(rate("avx2 fma", 1).float32_flops, 64e9);
  EXPECT_EQ(rate("avx2 fma avx512f", 3).float32_flops, 384e9);
  EXPECT_EQ(rate("fma avx512f", 1).half_flops, 128e9);
  EXPECT_EQ(rate("fma avx512f avx512_bf16", 1).half_flops, 256e9);
  EXPECT_EQ(rate("fma avx512f avx512_bf16 amx_bf16", 1).half_flops, 2048e9);
  EXPECT_EQ(rate("fma", 1).bytes, 0) << "nobody tells";
}

TEST(PeakRatesTest, TheHighestClockOfAProcessorCountsNotThePresentOne) {
  const auto rate = [](const char* most_khz) {
    return PeakRatesOf("cpu MHz : 800\nflags : fma\n", most_khz, 2)
        .float32_flops;
  };
  EXPECT_EQ(rate("3500000\n"), 2 * 32 * 3.5e9);
  EXPECT_EQ(rate(""), 2 * 32 * 0.8e9);
  EXPECT_EQ(rate("unknown\n"), 2 * 32 * 0.8e9);
  EXPECT_EQ(PeakRatesOf("flags : fma\n", "3500000\n", 1).float32_flops,
            32 * 3.5e9);
}

TEST(PeakRatesTest, AProcessorThatIsNotX86HasNone) {
  EXPECT_EQ(PeakRatesOf("Features : fp asimd\n", "3000000\n", 2), PeakRates());
}

TEST(PeakRatesTest, FieldsOfTheFirstProcessorAreRead) {
  const std::string cpuinfo =
      "model name\t: a: b\nflags\t\t:\n\nmodel name\t: c\n";
  EXPECT_EQ(ProcessorField(cpuinfo, "model name"), "a: b");
  EXPECT_EQ(ProcessorField(cpuinfo, "flags"), "");
  EXPECT_EQ(ProcessorField(cpuinfo, "model"), "");
}

TEST(PeakRatesTest, AProcessorWithoutAClockHasNone) {
  EXPECT_EQ(PeakRatesOf("", "", 2), PeakRates());
  EXPECT_EQ(PeakRatesOf("cpu MHz : fast\nflags : fma\n", "0\n", 2),
            PeakRates());
  EXPECT_EQ(PeakRatesOf("cpu MHz : 0\nflags : fma\n", "0\n", 2), PeakRates());
}

}  // namespace
}  // namespace gpupool::engine
