// Limits of jobs, models and devices that are checked twice: by the daemon when
// a request arrives, and by the engine before it uses the numbers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupool::engine {

// Devices that train one job together, and ranks of a group.
inline constexpr int kMaxJobDevices = 1024;
// Steps or epochs of a job, and of a part of its schedule. Sums of two are
// within 64 bits.
inline constexpr uint64_t kMaxJobSteps = uint64_t{1} << 48;
inline constexpr int kMaxLosses = 16;
inline constexpr int kMaxTransforms = 32;
// Each number of data.window.
inline constexpr uint32_t kMaxWindowRows = 65536;
// Numbers of all windows that data.scaling reads: some seconds of one thread.
inline constexpr uint64_t kMaxScaledNumbers = uint64_t{1} << 32;
// The parameters of Beta distributions in training.mix.
inline constexpr double kMaxMixAlpha = 1000;
// Threads that make the batches of a job ahead of its steps, and the batches
// and bytes that are made ahead.
inline constexpr uint32_t kMaxLoaderWorkers = 64;
inline constexpr uint32_t kMaxPrefetchedBatches = 256;
inline constexpr uint64_t kMaxPrefetchedBytes = uint64_t{4} << 30;
inline constexpr int kMaxLayers = 10'000;
inline constexpr size_t kMaxLayerNameBytes = 128;
// Numbers in one example of a model of layers.
inline constexpr int64_t kMaxInputElements = int64_t{1} << 31;
// Files beside an ONNX file that hold its weights.
inline constexpr int kMaxExternalFiles = 1000;
// N of cpu:N and cuda:N.
inline constexpr int kMaxDeviceIndex = 1023;
inline constexpr int kMaxGpus = kMaxDeviceIndex + 1;

}  // namespace gpupool::engine
