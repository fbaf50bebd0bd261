// gpupool devices memory --watch: the memory of a device as it changes, as rows
// and as a picture.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/cli/command/context.h"
#include "gpupool/v1/device.pb.h"

namespace gpupool::client {

struct MemoryWatchOptions {
  std::string device;
  double interval_seconds = 1;
  std::string file;  // picture to write at the end; empty: none
};

// The bytes of a device over time, at most kMostPoints of them: beyond that
// every second one is dropped, and later ones are kept as rarely.
class MemoryCurve {
 public:
  static constexpr size_t kMostPoints = 4096;

  void Add(double seconds, const v1::MemoryStats& stats);
  // Returns the number of points that are kept.
  size_t size() const { return allocated_.size(); }
  // Returns a picture (SVG) of allocated and reserved bytes over the seconds.
  std::string Picture(const std::string& device) const;

 private:
  std::vector<std::pair<double, double>> allocated_;  // MiB
  std::vector<std::pair<double, double>> reserved_;
  size_t stride_ = 1;  // one of so many is kept
  size_t seen_ = 0;
};

// Prints a row whenever the memory has changed, at most once per interval,
// until the user stops it. Then writes the picture.
int WatchMemory(Context& context, const MemoryWatchOptions& options);

}  // namespace gpupool::client
