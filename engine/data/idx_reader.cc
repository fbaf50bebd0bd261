#include "engine/data/idx_reader.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/tensor_limits.h"

namespace gpupool::engine {
namespace {

absl::StatusOr<ElementType> TypeOfCode(uint8_t code) {
  switch (code) {
    case 0x08:
      return ElementType::kUint8;
    case 0x09:
      return ElementType::kInt8;
    case 0x0B:
      return ElementType::kInt16;
    case 0x0C:
      return ElementType::kInt32;
    case 0x0D:
      return ElementType::kFloat32;
    case 0x0E:
      return ElementType::kFloat64;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("IDX element type 0x", absl::Hex(code, absl::kZeroPad2),
                       " (third byte) is unknown"));
  }
}

}  // namespace

absl::StatusOr<ArrayHeader> ReadIdxHeader(ByteStream& stream) {
  std::array<char, 4> start;
  RETURN_IF_ERROR(ReadExactly(stream, absl::MakeSpan(start)));
  if (start[0] != 0 || start[1] != 0) {
    return absl::InvalidArgumentError(
        "is not an IDX file: it does not begin with two zero bytes");
  }
  ArrayHeader header;
  header.big_endian = true;
  ASSIGN_OR_RETURN(header.type, TypeOfCode(static_cast<uint8_t>(start[2])));
  const int dimensions = static_cast<uint8_t>(start[3]);
  if (dimensions < 1 || dimensions > kMaxRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", dimensions, " dimensions (fourth byte); 1 to ",
                     kMaxRank, " are possible"));
  }
  for (int i = 0; i < dimensions; ++i) {
    std::array<char, 4> bytes;
    RETURN_IF_ERROR(ReadExactly(stream, absl::MakeSpan(bytes)));
    uint32_t size = 0;
    // Sizes are big-endian, like the elements.
    for (char byte : bytes) size = size << 8 | static_cast<uint8_t>(byte);
    header.shape.push_back(size);
  }
  RETURN_IF_ERROR(CheckedElementCount(header.shape).status());
  return header;
}

}  // namespace gpupool::engine
