#include "server/control/devices/bench_rates.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

using Bench = v1::DeviceBench;

void AddProduct(Bench& bench, const char* type, double flops) {
  Bench::Product& product = *bench.add_products();
  product.set_data_type(type);
  product.set_flops(flops);
}

void AddCopy(Bench& bench, Bench::Path path, uint64_t bytes, double seconds) {
  Bench::Copy& copy = *bench.add_copies();
  copy.set_path(path);
  copy.set_bytes(bytes);
  copy.set_seconds(seconds);
}

TEST(BenchRatesTest, TheFastestProductOfEachTypeCounts) {
  Bench bench;
  AddProduct(bench, "float32", 3e9);
  AddProduct(bench, "float32", 5e9);
  AddProduct(bench, "float32", 4e9);
  AddProduct(bench, "tf32", 9e9);
  AddProduct(bench, "bfloat16", 7e9);
  AddProduct(bench, "float16", 8e9);
  const v1::PeakRates rates = RatesOf(bench);
  EXPECT_EQ(rates.float32_flops(), 5e9);
  EXPECT_EQ(rates.tf32_flops(), 9e9);
  EXPECT_EQ(rates.half_flops(), 8e9);
}

TEST(BenchRatesTest, TheLargestCopyWithinTheDeviceReadsAndWritesItsBytes) {
  Bench bench;
  AddCopy(bench, Bench::ON_DEVICE, 4096, 1e-9);  // in a cache
  AddCopy(bench, Bench::ON_DEVICE, 1'000'000, 0.5);
  AddCopy(bench, Bench::TO_DEVICE, 5'000'000, 0.5);
  EXPECT_EQ(RatesOf(bench).bytes(), 4e6);
}

TEST(BenchRatesTest, WhatWasNotMeasuredIsZero) {
  Bench bench;
  AddCopy(bench, Bench::ON_DEVICE, 4096, 0);
  const v1::PeakRates rates = RatesOf(bench);
  EXPECT_EQ(rates.float32_flops(), 0);
  EXPECT_EQ(rates.bytes(), 0);
}

}  // namespace
}  // namespace gpupool::server
