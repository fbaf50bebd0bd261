// Conversions from the engine's structs to the API's messages. Pure.
#pragma once

#include <string>

#include "engine/memory/statistics.h"
#include "engine/model/layer_spec.h"
#include "engine/plan/report.h"
#include "engine/runtime/device_facts.h"
#include "engine/runtime/peak_rates.h"
#include "engine/serving/inference_programs.h"
#include "engine/session.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {

// Converts statistics; by_pytorch_name stays empty.
v1::MemoryStats ToProto(const std::string& device,
                        const MemoryStatistics& statistics);
// Converts a snapshot and stamps it with the current time.
v1::MemorySnapshot ToProto(const std::string& device,
                           const MemorySnapshot& snapshot);
// Adds the bytes over the history of the snapshot.
void AddTimeline(const MemorySnapshot& snapshot, v1::MemorySnapshot& proto);
v1::GpuFacts ToProto(const DeviceFacts& facts);
v1::PeakRates ToProto(const PeakRates& rates);
v1::GpuReadings ToProto(const DeviceReadings& readings);
v1::PlannedBytes ToProto(const PlannedBytes& bytes);
v1::DataType ToProto(DType dtype);
v1::DataType ToProto(WidenedType type);
// Converts a port. Its type is the one that clients use. Varying dimensions are
// -1, and with `batched` the first one is, too.
v1::TensorSpec ToProto(const ServedPort& port, bool batched,
                       const ServedSizes& served);

// Returns the options with defaults in place of zeros.
InferenceOptions ToOptions(const ServingLimits& limits);
// Adds a warning unless it is there: training and inference plans of a model
// repeat theirs.
void AddWarning(const std::string& warning,
                google::protobuf::RepeatedPtrField<std::string>& warnings);
// Fills in a plan's layers, ports, FLOPs, warnings and inference bytes.
void DescribeModel(const InferencePrograms& programs, const ServedSizes& served,
                   v1::Plan& plan);

}  // namespace gpupool::engine
