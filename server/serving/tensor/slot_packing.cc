#include "server/serving/tensor/slot_packing.h"

#include <algorithm>
#include <vector>

#include "engine/base/align.h"
#include "server/serving/tensor/data_type.h"
#include "server/serving/tensor/held_elements.h"

namespace gpupool::server {
namespace {

// Fills in the tensor apart from its offset.
void PackTensor(const TensorFormat& format, absl::Span<const int64_t> sizes,
                uint32_t rows, SlotTensor& tensor) {
  tensor.data_type = static_cast<uint32_t>(HeldType(format.data_type));
  const uint32_t batch_rank = format.batched ? 1 : 0;
  tensor.rank = static_cast<uint32_t>(format.row_shape.size()) + batch_rank;
  tensor.dims[0] = rows;  // overwritten for models without a batch
  const std::vector<int64_t> row_shape = format.RowShape(sizes);
  std::copy(row_shape.begin(), row_shape.end(), tensor.dims + batch_rank);
  tensor.bytes = rows * format.RowBytes(sizes);
}

// Copies a tensor to the place of its rows in the slot, padded if it is smaller
// than the served sizes. `rows` are in the type of slots.
void CopyPadded(const TensorFormat& format, const CheckedInputs& inputs,
                const std::byte* rows, std::byte* to) {
  std::vector<int64_t> came = format.RowShape(inputs.sizes);
  std::vector<int64_t> served = format.RowShape(inputs.served);
  came.insert(came.begin(), inputs.rows);
  served.insert(served.begin(), inputs.rows);
  PadTensor({came, rows}, format.pad, {served, to});
}

}  // namespace

uint64_t PackedBytes(const SlotFormats& formats, uint32_t rows) {
  uint64_t bytes = 0;
  for (const auto& tensors : {formats.inputs, formats.outputs}) {
    for (const TensorFormat& format : tensors) {
      bytes += engine::AlignUp(rows * format.RowBytes(formats.sizes),
                               kSlotTensorAlignment);
    }
  }
  return bytes;
}

uint32_t RowsPerSlot(const SlotFormats& formats, uint64_t slot_bytes,
                     uint32_t limit) {
  uint32_t fits = 0;  // bisection: bytes never fall as rows rise
  uint32_t too_many = limit + 1;
  while (too_many - fits > 1) {
    const uint32_t middle = fits + (too_many - fits) / 2;
    (PackedBytes(formats, middle) <= slot_bytes ? fits : too_many) = middle;
  }
  return fits;
}

void PackHeader(const SlotFormats& formats, uint64_t version_id, uint32_t rows,
                SlotHeader* header) {
  header->version_id = version_id;
  header->rows = rows;
  header->input_count = static_cast<uint32_t>(formats.inputs.size());
  header->output_count = static_cast<uint32_t>(formats.outputs.size());
  uint64_t offset = 0;
  const auto pack = [&](absl::Span<const TensorFormat> tensors,
                        SlotTensor* packed) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      PackTensor(tensors[i], formats.sizes, rows, packed[i]);
      packed[i].offset = offset;
      // The device may read the tensor in place, which needs this alignment.
      offset = engine::AlignUp(offset + packed[i].bytes, kSlotTensorAlignment);
    }
  };
  pack(formats.inputs, header->inputs);
  pack(formats.outputs, header->outputs);
}

void CopyRows(const SlotFormats& formats, const CheckedInputs& inputs,
              uint32_t first_row, const SlotContents& slot) {
  for (size_t i = 0; i < inputs.bytes.size(); ++i) {
    const absl::Span<const std::byte> rows = inputs.bytes[i];
    const SlotTensor& tensor = slot.header.inputs[i];
    const TensorFormat& format = formats.inputs[i];
    std::byte* const to = slot.payload.data() + tensor.offset +
                          first_row * (tensor.bytes / slot.header.rows);
    const bool same =
        format.variable.empty() || inputs.sizes == inputs.served ||
        format.RowShape(inputs.sizes) == format.RowShape(inputs.served);
    if (same) {
      CopyToHeld(format.data_type, rows, to);
    } else if (HeldType(format.data_type) == format.data_type) {
      CopyPadded(format, inputs, rows.data(), to);
    } else {
      // Padding is in the type of the slot, so elements are converted first.
      std::vector<std::byte> held(inputs.rows * format.RowBytes(inputs.sizes));
      CopyToHeld(format.data_type, rows, held.data());
      CopyPadded(format, inputs, held.data(), to);
    }
  }
}

}  // namespace gpupool::server
