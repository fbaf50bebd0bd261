#include "client/cli/devices/bench_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Bench = v1::DeviceBench;

std::string PrintedBench(const Bench& bench) {
  std::ostringstream out;
  PrintBench({.stream = &out}, bench, /*headers=*/false);
  return out.str();
}

void AddCopy(Bench& bench, Bench::Path path, uint64_t bytes, double seconds) {
  Bench::Copy& copy = *bench.add_copies();
  copy.set_path(path);
  copy.set_bytes(bytes);
  copy.set_seconds(seconds);
}

TEST(BenchViewTest, RowsHaveTimesAndRatesInTheirUnits) {
  Bench bench;
  AddCopy(bench, Bench::ON_DEVICE, 1 << 20, 0.5);
  AddCopy(bench, Bench::FROM_DEVICE, 4096, 0);
  Bench::Product& product = *bench.add_products();
  product.set_data_type("float32");
  product.set_size(128);
  product.set_seconds(2.5);
  product.set_flops(31'200'000'000);
  EXPECT_EQ(PrintedBench(bench),
            "copy on device\t1.0 MiB\t500 ms\t2.0 MiB/s\n"
            "copy from device\t4.0 KiB\t0 ns\t0 B/s\n"
            "float32 product\t128 rows\t2.5 s\t31.2GFLOP/s\n");
}

TEST(BenchViewTest, ANoteSaysThatOtherWorkWasBesideIt) {
  Bench bench;
  EXPECT_THAT(PrintedBench(bench), Not(HasSubstr("beside")));
  bench.set_beside_work(true);
  EXPECT_THAT(PrintedBench(bench), HasSubstr("beside other work"));
}

TEST(BenchViewTest, ThePictureHasAChartForEachKindThatWasMeasured) {
  Bench bench;
  bench.set_device("cpu:0");
  AddCopy(bench, Bench::ON_DEVICE, 4096, 1e-6);
  AddCopy(bench, Bench::ON_DEVICE, 65536, 4e-6);
  const std::string copies = BenchPicture(bench);
  EXPECT_THAT(copies, HasSubstr("Copies of cpu:0"));
  EXPECT_THAT(copies, HasSubstr(">on device</text>"));
  EXPECT_THAT(copies, Not(HasSubstr("Products")));
  Bench::Product& product = *bench.add_products();
  product.set_data_type("bfloat16");
  product.set_size(128);
  product.set_flops(1e12);
  const std::string both = BenchPicture(bench);
  EXPECT_THAT(both, HasSubstr("Products of cpu:0"));
  EXPECT_THAT(both, HasSubstr(">bfloat16</text>"));
  // Lines have the colours of the legend, in which the copies come first.
  EXPECT_THAT(both, HasSubstr("<circle class=\"l1\""));
}

TEST(BenchViewTest, NumbersWithoutALogarithmAreNotDrawn) {
  Bench bench;
  AddCopy(bench, Bench::ON_DEVICE, 4096, 0);
  EXPECT_THAT(BenchPicture(bench), Not(HasSubstr("Copies")));
}

}  // namespace
}  // namespace gpupool::client
