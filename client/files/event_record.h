// Records of the event files that TensorBoard reads. A file is records, each
//
//   length:64  crc(length):32  payload:length  crc(payload):32
//
// with little endian numbers. A crc is the CRC-32C, rotated, plus a constant. A
// payload is the protobuf message tensorflow.Event. The first one of a file
// names the version of the format. The messages are encoded by hand, because a
// program that links the client library may also contain TensorFlow's own.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace gpupool::client {

// Numbers of one step.
struct ScalarEvent {
  absl::Time time;
  uint64_t step = 0;
  // Whether earlier numbers of this step and of later ones are no longer true.
  bool rewinds = false;
  std::vector<std::pair<std::string, double>> values;  // by curve
};

// Returns the record that every file begins with.
std::string VersionRecord(absl::Time time);
// Returns the record that makes TensorBoard forget the numbers of `step` and of
// all steps after it, in this file and in earlier ones of the folder.
std::string RewindRecord(absl::Time time, uint64_t step);
// Returns the record with the numbers of one step, in 32 bits each. Ignores
// `rewinds`, for which RewindRecord makes a record of its own.
std::string ScalarsRecord(const ScalarEvent& event);

}  // namespace gpupool::client
