#include "engine/data/array_reader.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/data/column_buffer.h"

namespace gpupool::engine {
namespace {

constexpr uint64_t kArrayChunkBytes = 256 << 10;

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ","), "]");
}

// Returns whether the file holds the elements as they are, so that they can be
// mapped.
bool IsMappable(const OpenArray& array) {
  return array.file != nullptr && array.stream->InPlace().has_value();
}

// Returns a column without its data. INVALID_ARGUMENT for a bad shape.
absl::StatusOr<Column> DescribeColumn(const OpenArray& array, bool target) {
  const std::vector<int64_t>& shape = array.header.shape;
  Column column{.name = array.name,
                .type = array.header.type,
                .stored = array.header.type,
                .big_endian = array.header.big_endian,
                .shape = {shape.begin() + 1, shape.end()},
                .rows = static_cast<uint64_t>(shape[0])};
  ASSIGN_OR_RETURN(column.width, CheckedElementCount(column.shape));
  // [rows, 1] means one number for each row, as [rows] does.
  if (target && column.width == 1) column.shape.clear();
  if (!target && column.shape.empty()) column.shape = {1};
  return column;
}

// Reverses the bytes of each element.
void Reverse(uint64_t element_bytes, absl::Span<char> bytes) {
  for (uint64_t at = 0; at < bytes.size(); at += element_bytes) {
    std::reverse(bytes.begin() + at, bytes.begin() + at + element_bytes);
  }
}

// Returns the type of the elements in memory. Training computes with float32,
// so float64 would only take more room there.
ElementType KeptType(ElementType stored) {
  return stored == ElementType::kFloat64 ? ElementType::kFloat32 : stored;
}

uint64_t KeptRowBytes(const Column& column) {
  return column.width * ElementBytes(KeptType(column.stored));
}

// Adds elements as they are kept.
absl::Status AppendKept(const ArrayHeader& header, absl::Span<char> part,
                        ColumnBuffer& buffer) {
  const uint64_t element_bytes = ElementBytes(header.type);
  if (header.type != ElementType::kFloat64) {
    if (header.big_endian) Reverse(element_bytes, part);
    return buffer.Append(part);
  }
  const uint64_t count = part.size() / element_bytes;
  const Column doubles{.type = header.type,
                       .big_endian = header.big_endian,
                       .rows = count,
                       .data = part.data()};
  std::vector<float> floats(count);
  Convert(doubles, 0, absl::MakeSpan(floats));
  return buffer.Append(
      {reinterpret_cast<const char*>(floats.data()), count * sizeof(float)});
}

// Reads all elements of the array, and adds them to `buffer` if there is one.
// Checks that nothing follows them.
absl::Status ReadElements(const OpenArray& array, uint64_t bytes,
                          ColumnBuffer* buffer) {
  std::vector<char> chunk(std::min(bytes, kArrayChunkBytes));
  for (uint64_t done = 0; done < bytes;) {
    const absl::Span<char> part = absl::MakeSpan(chunk).first(
        std::min<uint64_t>(chunk.size(), bytes - done));
    const absl::Status read = ReadExactly(*array.stream, part);
    if (absl::IsInvalidArgument(read) && done > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          read.message(), ", after the first ", done, " of ", bytes, " bytes"));
    }
    RETURN_IF_ERROR(read);
    if (buffer != nullptr) {
      RETURN_IF_ERROR(AppendKept(array.header, part, *buffer));
    }
    done += part.size();
  }
  return ExpectEnd(*array.stream);
}

absl::Status CheckNumbers(const Column& column) {
  const uint64_t bad = FirstUnusable(column);
  if (bad == column.rows * column.width) return absl::OkStatus();
  if (!IsFloating(column.type)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "element ", bad, " is 2^63 or more, which int64 cannot hold"));
  }
  float number;
  Convert(column, bad, absl::MakeSpan(&number, 1));
  // Conversion of float16 is for finite numbers only.
  const std::string text = column.type == ElementType::kFloat16
                               ? "inf or nan"
                               : absl::StrCat(number);
  return absl::InvalidArgumentError(absl::StrCat(
      "element ", bad, " is ", text, ", which is not a finite float32"));
}

// Fills in the column's data. `unpack_dir`: the folder for an unpacked copy, if
// the table is mapped.
absl::Status ReadColumn(const OpenArray& array, bool mapped,
                        const std::string& unpack_dir, Column& column) {
  const uint64_t bytes = column.rows * column.row_bytes();
  if (mapped && IsMappable(array)) {
    // The stream is read all the same: it checks the length and the checksum.
    const std::string_view in_place = *array.stream->InPlace();
    RETURN_IF_ERROR(ReadElements(array, bytes, nullptr));
    column.data = in_place.data();
    column.file = array.file;
    return CheckNumbers(column);
  }
  ColumnBuffer buffer;
  column.type = KeptType(column.stored);
  column.big_endian = false;
  RETURN_IF_ERROR(mapped && !unpack_dir.empty()
                      ? buffer.MoveToDisk(unpack_dir)
                      : buffer.Reserve(column.rows * column.row_bytes()));
  RETURN_IF_ERROR(ReadElements(array, bytes, &buffer));
  RETURN_IF_ERROR(buffer.MoveTo(column));
  return CheckNumbers(column);
}

// The columns of a table without their data.
struct Described {
  Table table;
  bool mapped = false;
  uint64_t host_bytes = 0;
};

absl::Status CheckRows(const OpenArray& array, const OpenArray& first) {
  const std::vector<int64_t>& shape = array.header.shape;
  const std::vector<int64_t>& wanted = first.header.shape;
  if (shape[0] == wanted[0]) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      array.title, ": shape ", ShapeText(shape), " does not fit ", first.title,
      " of shape ", ShapeText(wanted), "; one entry for each of the ",
      wanted[0], " rows is needed"));
}

// Describes the columns and decides where their bytes lie. The size is checked
// before memory is taken: shapes come from the file.
absl::StatusOr<Described> Describe(absl::Span<const OpenArray> inputs,
                                   absl::Span<const OpenArray> targets,
                                   const ReadLimits& limits) {
  Described result;
  uint64_t row_bytes = 0, unpacked_row_bytes = 0;
  const auto add = [&](absl::Span<const OpenArray> arrays, bool target,
                       std::vector<Column>& columns) -> absl::Status {
    for (const OpenArray& array : arrays) {
      RETURN_IF_ERROR(CheckRows(array, inputs[0]));
      auto column = DescribeColumn(array, target);
      if (!column.ok()) return AtPlace(array.title, column.status());
      // Below 2^43 each, and there are few arrays.
      row_bytes += KeptRowBytes(*column);
      if (!IsMappable(array)) unpacked_row_bytes += KeptRowBytes(*column);
      columns.push_back(*std::move(column));
    }
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(add(inputs, false, result.table.inputs));
  RETURN_IF_ERROR(add(targets, true, result.table.targets));
  const uint64_t rows = result.table.rows = result.table.inputs[0].rows;
  ReadLimits any = limits;
  any.max_table_bytes = ~uint64_t{0};
  ASSIGN_OR_RETURN(const uint64_t bytes,
                   CheckedTableBytes(rows, row_bytes, any));
  ASSIGN_OR_RETURN(const uint64_t unpacked,
                   CheckedTableBytes(rows, unpacked_row_bytes, limits));
  result.mapped = bytes > limits.memory_bytes;
  if (!result.mapped) {
    result.host_bytes = bytes;
  } else if (limits.unpack_dir.empty()) {
    result.host_bytes = unpacked;
  }
  return result;
}

}  // namespace

absl::StatusOr<Table> TableFromArrays(absl::Span<const OpenArray> inputs,
                                      absl::Span<const OpenArray> targets,
                                      const ReadLimits& limits) {
  ASSIGN_OR_RETURN(Described described, Describe(inputs, targets, limits));
  Table& table = described.table;
  for (size_t i = 0; i < inputs.size(); ++i) {
    RETURN_IF_ERROR(AtPlace(inputs[i].title,
                            ReadColumn(inputs[i], described.mapped,
                                       limits.unpack_dir, table.inputs[i])));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    Column& target = table.targets[i];
    RETURN_IF_ERROR(AtPlace(
        targets[i].title,
        ReadColumn(targets[i], described.mapped, limits.unpack_dir, target)));
    target.facts = SummarizeLabels(target);
  }
  return std::move(table);
}

absl::StatusOr<uint64_t> HostBytes(absl::Span<const OpenArray> inputs,
                                   absl::Span<const OpenArray> targets,
                                   const ReadLimits& limits) {
  ASSIGN_OR_RETURN(const Described described,
                   Describe(inputs, targets, limits));
  return described.host_bytes;
}

}  // namespace gpupool::engine
