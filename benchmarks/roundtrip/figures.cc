#include "benchmarks/roundtrip/figures.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "nlohmann/json.hpp"

namespace gpupool::benchmarks {
namespace {

double Rounded(double value, double steps_per_unit) {
  return std::round(value * steps_per_unit) / steps_per_unit;
}

}  // namespace

Figures Summarise(std::vector<double> latencies_us,
                  std::chrono::duration<double> elapsed) {
  std::sort(latencies_us.begin(), latencies_us.end());
  const size_t requests = latencies_us.size();
  return {.p50_us = latencies_us[requests / 2],
          .p99_us = latencies_us[requests * 99 / 100],
          .per_second = static_cast<double>(requests) / elapsed.count(),
          .requests = requests};
}

double Median(const std::vector<Figures>& rounds, double Figures::*field) {
  std::vector<double> values;
  for (const Figures& figures : rounds) values.push_back(figures.*field);
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void Print(const Names& names, const std::string& figure,
           const std::string& unit, Pair values) {
  std::cout << nlohmann::ordered_json(
                   {{"bench", names.bench},
                    {"case", names.prefix + figure},
                    {"ours", Rounded(values.ours, 10)},
                    {"peer", Rounded(values.peer, 10)},
                    {"ratio", Rounded(values.ours / values.peer, 1000)},
                    {"unit", unit}})
            << std::endl;
}

}  // namespace gpupool::benchmarks
