// Figures of one round of requests, and their medians over rounds.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

namespace gpupool::benchmarks {

struct Figures {
  double p50_us = 0;
  double p99_us = 0;
  double per_second = 0;
  size_t requests = 0;
  // Voluntary context switches of the server's processes for each request; 0 if
  // their number is unknown.
  double switches = 0;
};

// Returns the figures of the requests that took so long. Sorts `latencies_us`,
// which must not be empty.
Figures Summarise(std::vector<double> latencies_us,
                  std::chrono::duration<double> elapsed);

double Median(const std::vector<Figures>& rounds, double Figures::*field);

// Names in the lines that a benchmark prints.
struct Names {
  std::string bench = "infer-roundtrip";
  std::string prefix;  // of cases
};

struct Pair {
  double ours = 0;
  double peer = 0;
};

// Prints one JSON line.
void Print(const Names& names, const std::string& figure,
           const std::string& unit, Pair values);

}  // namespace gpupool::benchmarks
