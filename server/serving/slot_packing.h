// Where the tensors of one batch lie in a slot's payload: inputs first, then
// outputs, in the model's order, each 64-byte aligned.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "server/ipc/slot_layout.h"
#include "server/serving/tensor_view.h"

namespace gpupool::server {

// What of a model a slot must know. Borrowed.
struct SlotFormats {
  absl::Span<const TensorFormat> inputs;   // 1 .. kMaxSlotTensors
  absl::Span<const TensorFormat> outputs;  // 1 .. kMaxSlotTensors
  // Of the dimensions of several sizes; none: the largest.
  absl::Span<const int64_t> sizes = {};
};

// Most rows of one batch in `slot_bytes`, at most `limit`. 0: not even one.
uint32_t RowsPerSlot(const SlotFormats& formats, uint64_t slot_bytes,
                     uint32_t limit);

// Bytes that a batch takes in a payload. `rows` is at most 2^20.
uint64_t PackedBytes(const SlotFormats& formats, uint32_t rows);

// Fills in version, rows and tensors. `rows` fits, by RowsPerSlot.
void PackHeader(const SlotFormats& formats, uint64_t version_id, uint32_t rows,
                SlotHeader* header);

// Copies one request's rows behind those that are there already, filled up to
// the served sizes. `header` is PackHeader's of `formats` with these sizes;
// `first_row` + inputs.rows <= header.rows.
void CopyRows(const SlotHeader& header, const SlotFormats& formats,
              const CheckedInputs& inputs, uint32_t first_row,
              absl::Span<std::byte> payload);

}  // namespace gpupool::server
