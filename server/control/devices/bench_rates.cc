#include "server/control/devices/bench_rates.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace gpupool::server {

v1::PeakRates RatesOf(const v1::DeviceBench& bench) {
  v1::PeakRates rates;
  for (const v1::DeviceBench::Product& product : bench.products()) {
    const std::string& type = product.data_type();
    const double flops = product.flops();
    if (type == "float32") {
      rates.set_float32_flops(std::max(rates.float32_flops(), flops));
    } else if (type == "tf32") {
      rates.set_tf32_flops(std::max(rates.tf32_flops(), flops));
    } else if (type == "bfloat16" || type == "float16") {
      rates.set_half_flops(std::max(rates.half_flops(), flops));
    }
  }
  uint64_t largest = 0;
  for (const v1::DeviceBench::Copy& copy : bench.copies()) {
    if (copy.path() != v1::DeviceBench::ON_DEVICE || copy.bytes() < largest ||
        !(copy.seconds() > 0)) {
      continue;
    }
    largest = copy.bytes();
    rates.set_bytes(2 * static_cast<double>(copy.bytes()) / copy.seconds());
  }
  return rates;
}

}  // namespace gpupool::server
