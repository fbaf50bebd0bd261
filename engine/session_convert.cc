#include "engine/session_convert.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>

#include "absl/time/time.h"
#include "engine/backends/cuda/driver/xid_catalog.h"
#include "engine/memory/history_curve.h"
#include "engine/model/precision.h"

namespace gpupool::engine {
namespace {

constexpr size_t kTimelinePoints = 1000;  // device.proto

google::protobuf::Timestamp ToProto(absl::Time time) {
  return google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(
      absl::ToUnixMicros(time));
}

}  // namespace

v1::MemoryStats ToProto(const std::string& device,
                        const MemoryStatistics& statistics) {
  v1::MemoryStats proto;
  proto.set_device(device);
  proto.set_limit_bytes(statistics.limit_bytes);
  proto.set_allocated_bytes(statistics.allocated_bytes);
  proto.set_requested_bytes(statistics.requested_bytes);
  proto.set_reserved_bytes(statistics.reserved_bytes);
  proto.set_peak_allocated_bytes(statistics.peak_allocated_bytes);
  proto.set_peak_reserved_bytes(statistics.peak_reserved_bytes);
  proto.set_allocations(statistics.allocations);
  proto.set_frees(statistics.frees);
  proto.set_retries(statistics.retries);
  proto.set_out_of_memory(statistics.out_of_memory);
  proto.set_fragmentation(statistics.external_fragmentation());
  for (const OwnerUsage& usage : statistics.owners) {
    v1::OwnerBytes* owner = proto.add_owners();
    owner->set_owner(usage.label);
    owner->set_bytes(usage.bytes);
  }
  return proto;
}

v1::MemorySnapshot ToProto(const std::string& device,
                           const MemorySnapshot& snapshot) {
  v1::MemorySnapshot proto;
  proto.set_device(device);
  for (const SegmentFacts& facts : snapshot.segments) {
    v1::MemorySnapshot::Segment* segment = proto.add_segments();
    segment->set_address(facts.address);
    segment->set_bytes(facts.bytes);
    for (const BlockFacts& block_facts : facts.blocks) {
      v1::MemorySnapshot::Block* block = segment->add_blocks();
      block->set_offset(block_facts.offset);
      block->set_bytes(block_facts.bytes);
      block->set_free(block_facts.free);
      block->set_owner(block_facts.owner);
      block->set_requested_bytes(block_facts.requested_bytes);
    }
  }
  *proto.mutable_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  return proto;
}

void AddTimeline(const MemorySnapshot& snapshot, v1::MemorySnapshot& proto) {
  for (const CurvePoint& point : HistoryCurve(snapshot, kTimelinePoints)) {
    v1::MemoryPoint& added = *proto.add_timeline();
    *added.mutable_end_time() =
        google::protobuf::util::TimeUtil::MicrosecondsToTimestamp(
            point.end_time_us);
    added.set_allocated_bytes(point.allocated_bytes);
    added.set_reserved_bytes(point.reserved_bytes);
  }
}

v1::GpuFacts ToProto(const DeviceFacts& facts) {
  v1::GpuFacts proto;
  proto.set_uuid(facts.uuid);
  proto.set_pci_bus_id(facts.pci_bus_id);
  proto.set_compute_capability(facts.compute_capability);
  proto.set_multiprocessors(facts.multiprocessors);
  proto.set_total_bytes(facts.total_bytes);
  proto.set_driver_version(facts.driver_version);
  proto.set_cuda_version(facts.cuda_version);
  return proto;
}

v1::PeakRates ToProto(const PeakRates& rates) {
  v1::PeakRates proto;
  proto.set_float32_flops(rates.float32_flops);
  proto.set_tf32_flops(rates.tf32_flops);
  proto.set_half_flops(rates.half_flops);
  proto.set_bytes(rates.bytes);
  return proto;
}

v1::GpuReadings ToProto(const DeviceReadings& readings) {
  v1::GpuReadings proto;
  // Readings that the device does not provide stay absent in the message.
  const auto copy = [&proto](const auto& reading, auto set) {
    if (reading.has_value()) (proto.*set)(*reading);
  };
  using Proto = v1::GpuReadings;
  *proto.mutable_time() = ToProto(readings.time);
  copy(readings.utilization, &Proto::set_utilization);
  copy(readings.memory_utilization, &Proto::set_memory_utilization);
  copy(readings.used_bytes, &Proto::set_used_bytes);
  copy(readings.temperature_celsius, &Proto::set_temperature_celsius);
  copy(readings.power_watts, &Proto::set_power_watts);
  copy(readings.power_limit_watts, &Proto::set_power_limit_watts);
  copy(readings.multiprocessor_clock_mhz, &Proto::set_multiprocessor_clock_mhz);
  copy(readings.memory_clock_mhz, &Proto::set_memory_clock_mhz);
  copy(readings.ecc_corrected, &Proto::set_ecc_corrected);
  copy(readings.ecc_uncorrected, &Proto::set_ecc_uncorrected);
  for (const DeviceProcess& process : readings.processes) {
    v1::GpuProcess* added = proto.add_processes();
    added->set_pid(process.pid);
    added->set_bytes(process.bytes);
  }
  for (const XidEvent& event : readings.xid_events) {
    v1::XidEvent* added = proto.add_xid_events();
    *added->mutable_time() = ToProto(event.time);
    added->set_code(event.code);
    added->set_text(std::string(cuda::XidText(event.code)));
  }
  return proto;
}

v1::DataType ToProto(DType dtype) {
  switch (dtype) {
#define GPUPOOL_DTYPE(dtype, message, ...) \
  case DType::dtype:                       \
    return v1::message;
#include "engine/base/dtype_table.inc"
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

v1::DataType ToProto(WidenedType type) {
  switch (type) {
#define GPUPOOL_WIDENED_TYPE(type, message, ...) \
  case WidenedType::type:                        \
    return v1::message;
#include "engine/base/widened_types.inc"
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

v1::TensorSpec ToProto(const ServedPort& served_port, bool batched,
                       const ServedSizes& served) {
  const ModelPort& port = served_port.port;
  v1::TensorSpec spec;
  spec.set_name(port.name);
  spec.set_data_type(port.declared.has_value() ? ToProto(*port.declared)
                                               : ToProto(port.dtype));
  spec.set_bound(served_port.bound);
  spec.set_loop(port.loop);
  for (int64_t dimension : port.shape.dims()) spec.add_shape(dimension);
  if (batched) spec.set_shape(0, -1);
  for (const VariableAxis& axis : served_port.variable) {
    spec.set_shape(axis.axis, -1);
    v1::VariableDimension* variable = spec.add_variable();
    variable->set_axis(static_cast<uint32_t>(axis.axis));
    variable->set_maximum(axis.maximum);
    if (axis.size.has_value()) variable->set_size(axis.size->text());
    // The axis follows from several sizes or from numbers, so it has no name.
    if (axis.dimension < 0) continue;
    const size_t dimension = static_cast<size_t>(axis.dimension);
    variable->set_name(served.dimensions[dimension].name);
    variable->set_minimum(served.dimensions[dimension].minimum);
  }
  return spec;
}

v1::PlannedBytes ToProto(const PlannedBytes& bytes) {
  v1::PlannedBytes proto;
  proto.set_weights(bytes.weights);
  proto.set_optimizer(bytes.optimizer);
  proto.set_gradients(bytes.gradients);
  proto.set_activations(bytes.activations);
  proto.set_workspace(bytes.workspace);
  proto.set_peak(bytes.peak);
  proto.set_next_batch(bytes.next_batch);
  return proto;
}

InferenceOptions ToOptions(const ServingLimits& limits) {
  InferenceOptions options{.max_batch_size = limits.max_batch_size,
                           .max_programs = limits.max_programs,
                           .compute = ComputeType(limits.precision)};
  options.kernels.tensor_float32 = AllowsTensorFloat32(limits.precision);
  if (options.max_batch_size == 0) {
    options.max_batch_size = v1::DEFAULT_SERVED_ROWS;
  }
  if (options.max_programs == 0) {
    options.max_programs = v1::DEFAULT_SERVED_PROGRAMS;
  }
  return options;
}

void AddWarning(const std::string& warning,
                google::protobuf::RepeatedPtrField<std::string>& warnings) {
  if (std::find(warnings.begin(), warnings.end(), warning) != warnings.end()) {
    return;
  }
  *warnings.Add() = warning;
}

void DescribeModel(const InferencePrograms& programs, const ServedSizes& served,
                   v1::Plan& plan) {
  uint64_t flops = 0;
  for (const LayerInfo& info : programs.layers) {
    v1::LayerPlan* layer = plan.add_layers();
    layer->set_name(info.name);
    layer->set_kind(info.kind);
    for (int64_t dimension : info.output_shape.dims()) {
      layer->add_output_shape(dimension);
    }
    layer->set_parameters(info.parameters);
    layer->set_flops(info.flops);
    flops += info.flops;
  }
  plan.set_parameters(programs.parameters);
  plan.set_inference_flops_per_example(flops);
  *plan.mutable_inference() = ToProto(BytesOf(programs));
  for (const ServedPort& port : programs.inputs) {
    *plan.add_inputs() = ToProto(port, programs.batched, served);
  }
  for (const ServedPort& port : programs.outputs) {
    *plan.add_outputs() = ToProto(port, programs.batched, served);
  }
  plan.set_computes_alone(programs.computes_alone);
  for (const std::string& warning : programs.warnings) {
    AddWarning(warning, *plan.mutable_warnings());
  }
}

}  // namespace gpupool::engine
