#include "server/ipc/slot_layout.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"
#include "server/ipc/slot_queue.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kPageBytes = 4096;

// Place of a tensor in a slot.
struct TensorPlace {
  const char* kind = "";  // "input" or "output"
  uint32_t index = 0;

  // Returns "slot input 3: ".
  std::string Text() const {
    return absl::StrCat("slot ", kind, " ", index, ": ");
  }
};

absl::Status Refuse(const TensorPlace& place, const char* what, uint64_t value,
                    uint64_t limit) {
  return absl::InvalidArgumentError(
      absl::StrCat(place.Text(), what, " is ", value, ", limit ", limit));
}

// Computes elements * element size. Returns false on overflow or a dimension
// below 0.
bool DenseBytes(const SlotTensor& tensor, uint64_t element_bytes,
                uint64_t* bytes) {
  *bytes = element_bytes;
  for (uint32_t d = 0; d < tensor.rank; ++d) {
    if (tensor.dims[d] < 0) return false;
    if (__builtin_mul_overflow(*bytes, static_cast<uint64_t>(tensor.dims[d]),
                               bytes)) {
      return false;
    }
  }
  return true;
}

// Checks one tensor. Compares offset and bytes by subtraction, since their sum
// could overflow.
absl::Status CheckTensor(const SlotTensor& tensor, const TensorPlace& place,
                         uint64_t slot_bytes) {
  const uint64_t element_bytes = SlotElementBytes(tensor.data_type);
  if (element_bytes == 0) {
    return Refuse(place, "data type", tensor.data_type, 9);
  }
  if (tensor.rank > kMaxSlotRank) {
    return Refuse(place, "rank", tensor.rank, kMaxSlotRank);
  }
  uint64_t bytes = 0;
  if (!DenseBytes(tensor, element_bytes, &bytes) || bytes != tensor.bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(place.Text(), tensor.bytes,
                     " bytes do not match the dimensions, which need ", bytes));
  }
  if (tensor.offset % kSlotTensorAlignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(place.Text(), "offset ", tensor.offset,
                     " is no multiple of ", kSlotTensorAlignment));
  }
  if (bytes > slot_bytes || tensor.offset > slot_bytes - bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        place.Text(), bytes, " bytes at offset ", tensor.offset,
        " exceed the slot's ", slot_bytes, " bytes; send fewer rows at once"));
  }
  return absl::OkStatus();
}

bool Overlap(const SlotTensor& a, const SlotTensor& b) {
  if (a.bytes == 0 || b.bytes == 0) return false;
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

// Checks that no output overlaps another tensor: the worker reads inputs while
// it writes outputs.
absl::Status CheckDisjointOutputs(const SlotHeader& header) {
  for (uint32_t o = 0; o < header.output_count; ++o) {
    const SlotTensor& output = header.outputs[o];
    for (uint32_t i = 0; i < header.input_count; ++i) {
      if (Overlap(output, header.inputs[i])) {
        return absl::InvalidArgumentError(
            absl::StrCat("slot output ", o, " overlaps input ", i));
      }
    }
    for (uint32_t i = 0; i < o; ++i) {
      if (Overlap(output, header.outputs[i])) {
        return absl::InvalidArgumentError(
            absl::StrCat("slot output ", o, " overlaps output ", i));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t SlotElementBytes(uint32_t data_type) {
  // Sizes by gpupool.v1.DataType, which numbers the rows of the table from 1.
  constexpr uint64_t kBytes[] = {
      0,
#define GPUPOOL_DTYPE(dtype, message, name, bytes, ...) bytes,
#include "engine/base/dtype_table.inc"
  };
  return data_type < std::size(kBytes) ? kBytes[data_type] : 0;
}

void CopySlotRequest(const SlotHeader& from, SlotHeader* to) {
  std::memcpy(to, &from, offsetof(SlotHeader, inputs));
  // The counts of the copy, which nobody else changes.
  std::memcpy(to->inputs, from.inputs,
              sizeof(SlotTensor) * std::min(to->input_count, kMaxSlotTensors));
  std::memcpy(to->outputs, from.outputs,
              sizeof(SlotTensor) * std::min(to->output_count, kMaxSlotTensors));
}

void CopySlotAnswer(const SlotHeader& from, uint32_t outputs, SlotHeader* to) {
  constexpr size_t kBegin = offsetof(SlotHeader, compute_nanos);
  constexpr size_t kEnd = offsetof(SlotHeader, output_dims);
  std::memcpy(reinterpret_cast<std::byte*>(to) + kBegin,
              reinterpret_cast<const std::byte*>(&from) + kBegin,
              kEnd - kBegin);
  const size_t count = std::min(outputs, kMaxSlotTensors);
  std::memcpy(to->output_dims, from.output_dims,
              sizeof(from.output_dims[0]) * count);
  std::memcpy(to->output_ranks, from.output_ranks,
              sizeof(from.output_ranks[0]) * count);
}

absl::Status CheckSlotHeader(const SlotHeader& header, uint64_t slot_bytes) {
  if (header.input_count > kMaxSlotTensors) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a slot has ", header.input_count, " inputs, limit ", kMaxSlotTensors));
  }
  if (header.output_count > kMaxSlotTensors) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slot has ", header.output_count, " outputs, limit ",
                     kMaxSlotTensors));
  }
  for (uint32_t i = 0; i < header.input_count; ++i) {
    RETURN_IF_ERROR(CheckTensor(header.inputs[i], {.kind = "input", .index = i},
                                slot_bytes));
  }
  for (uint32_t i = 0; i < header.output_count; ++i) {
    RETURN_IF_ERROR(CheckTensor(header.outputs[i],
                                {.kind = "output", .index = i}, slot_bytes));
  }
  return CheckDisjointOutputs(header);
}

absl::Status TakeOutputDims(const SlotHeader& answer, SlotHeader* header) {
  for (uint32_t i = 0; i < header->output_count; ++i) {
    if (answer.output_ranks[i] == 0) continue;
    SlotTensor tensor = header->outputs[i];
    tensor.rank = answer.output_ranks[i] - 1;
    if (tensor.rank > kMaxSlotRank) {
      return Refuse({.kind = "output", .index = i}, "rank", tensor.rank,
                    kMaxSlotRank);
    }
    for (uint32_t d = 0; d < tensor.rank; ++d) {
      tensor.dims[d] = answer.output_dims[i][d];
    }
    const bool dense =
        DenseBytes(tensor, SlotElementBytes(tensor.data_type), &tensor.bytes);
    if (!dense || tensor.bytes > header->outputs[i].bytes) {
      return Refuse({.kind = "output", .index = i}, "size in bytes",
                    tensor.bytes, header->outputs[i].bytes);
    }
    header->outputs[i] = tensor;
  }
  return absl::OkStatus();
}

absl::StatusOr<RingGeometry> ComputeRingGeometry(uint32_t slot_count,
                                                 uint64_t slot_bytes) {
  if (slot_count == 0 || slot_count > kMaxSlots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a slot ring has 1 to ", kMaxSlots, " slots; asked for ", slot_count));
  }
  if (slot_bytes == 0 || slot_bytes > kMaxSlotBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a slot has 1 to ", kMaxSlotBytes, " bytes; asked for ", slot_bytes));
  }
  using engine::AlignUp;
  RingGeometry g;
  g.slot_count = slot_count;
  g.slot_bytes = AlignUp(slot_bytes, kPageBytes);
  g.queue_capacity = std::bit_ceil(slot_count);
  const uint64_t queue_bytes =
      AlignUp(SlotQueue::BytesFor(g.queue_capacity), kPageBytes);
  g.submission_offset = kPageBytes;
  g.completion_offset = g.submission_offset + queue_bytes;
  g.slots_offset = g.completion_offset + queue_bytes;
  g.payload_offset = AlignUp(sizeof(SlotHeader), kPageBytes);
  g.slot_stride = g.payload_offset + g.slot_bytes;
  g.region_bytes = g.slots_offset + g.slot_stride * slot_count;
  return g;
}

}  // namespace gpupool::server
