#include "engine/data/column.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "engine/base/check.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

// Elements are loaded as they are, or with their bytes reversed.
static_assert(std::endian::native == std::endian::little);

// The bits of an IEEE 754 binary16 number.
struct Half {
  uint16_t bits;
};

// Converts without branches, so that the compiler can use SIMD. The exponent
// moves from a bias of 15 to 127. Subnormal numbers get the exponent of 2^-14
// first and lose their leading one by a subtraction. Infinities and NaN must
// not occur.
float FromHalf(Half half) {
  constexpr uint32_t kLeastNormal = 113u << 23;  // 2^-14
  const uint32_t magnitude = static_cast<uint32_t>(half.bits & 0x7fff) << 13;
  const uint32_t sign = static_cast<uint32_t>(half.bits & 0x8000) << 16;
  const uint32_t normal = magnitude + (112u << 23);
  const uint32_t subnormal =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude + kLeastNormal) -
                              std::bit_cast<float>(kLeastNormal));
  // All ones for subnormal numbers.
  const uint32_t chosen = 0u - static_cast<uint32_t>(magnitude < (1u << 23));
  return std::bit_cast<float>((subnormal & chosen) | (normal & ~chosen) | sign);
}

template <typename T, bool kReversed>
T Load(const char* bytes) {
  if constexpr (sizeof(T) == 1 || !kReversed) {
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    return value;
  } else {
    using Bits = std::conditional_t<
        sizeof(T) == 2, uint16_t,
        std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
    Bits bits;
    std::memcpy(&bits, bytes, sizeof(T));
    if constexpr (sizeof(T) == 2) bits = __builtin_bswap16(bits);
    if constexpr (sizeof(T) == 4) bits = __builtin_bswap32(bits);
    if constexpr (sizeof(T) == 8) bits = __builtin_bswap64(bits);
    return std::bit_cast<T>(bits);
  }
}

template <typename To, typename From>
To ConvertOne(From from) {
  if constexpr (std::is_same_v<From, Half>) {
    return ConvertOne<To>(FromHalf(from));
  } else if constexpr (std::is_floating_point_v<To>) {
    return static_cast<To>(from);
  } else if constexpr (std::is_floating_point_v<From>) {
    // 2^53 bounds the numbers that are exact as a double.
    constexpr auto kLimit = static_cast<double>(
        std::min<int64_t>(std::numeric_limits<To>::max(), int64_t{1} << 53));
    const double number = from;
    return number >= -kLimit && number <= kLimit ? static_cast<To>(number)
                                                 : To{0};
  } else {
    return std::in_range<To>(from) ? static_cast<To>(from) : To{0};
  }
}

// Converts `count` elements. Blocks of a fixed length become SIMD code also at
// -O2.
template <typename From, bool kReversed, typename To>
void ConvertRun(const char* __restrict from, uint64_t count,
                To* __restrict to) {
  constexpr uint64_t kBlock = 32;
  if constexpr (std::is_same_v<From, To> && !kReversed) {
    std::memcpy(to, from, count * sizeof(To));
    return;
  }
  for (; count >= kBlock; count -= kBlock) {
    for (uint64_t i = 0; i < kBlock; ++i) {
      to[i] = ConvertOne<To>(Load<From, kReversed>(from + i * sizeof(From)));
    }
    from += kBlock * sizeof(From);
    to += kBlock;
  }
  for (uint64_t i = 0; i < count; ++i) {
    to[i] = ConvertOne<To>(Load<From, kReversed>(from + i * sizeof(From)));
  }
}

// Calls `use` with the type of the column's elements as a template argument.
template <typename Use>
void WithType(ElementType type, const Use& use) {
  switch (type) {
    case ElementType::kUint8:
      return use.template operator()<uint8_t>();
    case ElementType::kInt8:
      return use.template operator()<int8_t>();
    case ElementType::kUint16:
      return use.template operator()<uint16_t>();
    case ElementType::kInt16:
      return use.template operator()<int16_t>();
    case ElementType::kUint32:
      return use.template operator()<uint32_t>();
    case ElementType::kInt32:
      return use.template operator()<int32_t>();
    case ElementType::kUint64:
      return use.template operator()<uint64_t>();
    case ElementType::kInt64:
      return use.template operator()<int64_t>();
    case ElementType::kFloat16:
      return use.template operator()<Half>();
    case ElementType::kFloat32:
      return use.template operator()<float>();
    case ElementType::kFloat64:
      return use.template operator()<double>();
  }
}

template <typename To>
void ConvertColumn(const Column& column, uint64_t first, absl::Span<To> to) {
  GPUPOOL_CHECK(first + to.size() <= column.rows * column.width);
  while (!to.empty()) {
    // Numbers of several rows are consecutive unless the rows are windows.
    uint64_t count = to.size();
    if (column.step != 0) {
      count = std::min(count, column.width - first % column.width);
    }
    WithType(column.type, [&]<typename From>() {
      const char* from = column.data + column.PlaceOf(first) * sizeof(From);
      column.big_endian ? ConvertRun<From, true>(from, count, to.data())
                        : ConvertRun<From, false>(from, count, to.data());
    });
    first += count;
    to.remove_prefix(count);
  }
}

template <typename To>
void GatherColumn(const Column& column, absl::Span<const uint32_t> rows,
                  absl::Span<To> to) {
  const uint64_t width = column.width;
  GPUPOOL_CHECK(to.size() >= rows.size() * width);
  To* out = to.data();
  WithType(column.type, [&]<typename From>() {
    for (const uint32_t row : rows) {
      const char* from = column.data + column.PlaceOfRow(row) * sizeof(From);
      column.big_endian ? ConvertRun<From, true>(from, width, out)
                        : ConvertRun<From, false>(from, width, out);
      out += width;
    }
  });
  std::fill(out, to.data() + to.size(), To{0});
}

template <typename To>
void ConvertChunks(
    const Column& column,
    absl::FunctionRef<bool(uint64_t, absl::Span<const To>)> use) {
  constexpr uint64_t kChunkNumbers = 16 << 10;
  const uint64_t count = column.rows * column.width;
  std::vector<To> chunk;
  for (uint64_t i = 0; i < count; i = column.SkipShared(i + chunk.size())) {
    // A chunk ends with its window, so that it has none of the shared numbers.
    const uint64_t rest =
        column.step == 0 ? count - i : column.width - i % column.width;
    chunk.resize(std::min(kChunkNumbers, rest));
    ConvertColumn(column, i, absl::MakeSpan(chunk));
    if (!use(i, chunk)) return;
  }
}

bool IsUsable(float x) { return std::isfinite(x); }
// A finite double may be infinite as a float.
bool IsUsable(double x) { return std::isfinite(static_cast<float>(x)); }
// Exponent 31 marks infinities and NaN.
bool IsUsable(Half x) { return (x.bits & 0x7c00) != 0x7c00; }
bool IsUsable(uint64_t x) { return std::in_range<int64_t>(x); }

template <typename T, bool kReversed>
T NumberAt(const Column& column, uint64_t i) {
  return Load<T, kReversed>(column.data + column.PlaceOf(i) * sizeof(T));
}

template <typename T, bool kReversed>
uint64_t FindUnusable(const Column& column) {
  const uint64_t count = column.rows * column.width;
  for (uint64_t i = 0; i < count; ++i) {
    if (!IsUsable(NumberAt<T, kReversed>(column, i))) return i;
  }
  return count;
}

// A half is exact as a float.
double ToDouble(Half x) { return double{FromHalf(x)}; }
double ToDouble(double x) { return x; }

template <typename T, bool kReversed>
std::optional<PlacedNumber> FindNotWhole(const Column& column, double limit) {
  const uint64_t count = column.rows * column.width;
  for (uint64_t i = 0; i < count; i = column.SkipShared(i + 1)) {
    const double x = ToDouble(NumberAt<T, kReversed>(column, i));
    // False for NaN, too.
    if (std::abs(x) <= limit && std::trunc(x) == x) continue;
    return PlacedNumber{i, x};
  }
  return std::nullopt;
}

struct ElementFacts {
  ElementType type;
  absl::string_view name;
  absl::string_view numpy;
  uint64_t bytes;
  v1::DataType message;  // of the same size or larger
};

// The facts of each type, in the order of the enumeration.
constexpr ElementFacts kElementFacts[] = {
    {ElementType::kUint8, "uint8", "u1", 1, v1::UINT8},
    {ElementType::kInt8, "int8", "i1", 1, v1::INT8},
    {ElementType::kUint16, "uint16", "u2", 2, v1::INT32},
    {ElementType::kInt16, "int16", "i2", 2, v1::INT32},
    {ElementType::kUint32, "uint32", "u4", 4, v1::INT64},
    {ElementType::kInt32, "int32", "i4", 4, v1::INT32},
    {ElementType::kUint64, "uint64", "u8", 8, v1::INT64},
    {ElementType::kInt64, "int64", "i8", 8, v1::INT64},
    {ElementType::kFloat16, "float16", "f2", 2, v1::FLOAT16},
    {ElementType::kFloat32, "float32", "f4", 4, v1::FLOAT32},
    {ElementType::kFloat64, "float64", "f8", 8, v1::FLOAT64},
};

const ElementFacts& FactsOf(ElementType type) {
  return kElementFacts[static_cast<size_t>(type)];
}

}  // namespace

uint64_t ElementBytes(ElementType type) { return FactsOf(type).bytes; }

absl::string_view ElementTypeName(ElementType type) {
  return FactsOf(type).name;
}

std::optional<ElementType> ElementTypeOfNumpy(absl::string_view code) {
  if (code == "b1") return ElementType::kUint8;
  for (const ElementFacts& row : kElementFacts) {
    if (row.numpy == code) return row.type;
  }
  return std::nullopt;
}

v1::DataType ToProto(ElementType type) { return FactsOf(type).message; }

ElementType FromProto(v1::DataType type) {
  if (type == v1::BOOL) return ElementType::kUint8;
  // The last row with the message type is the type itself; those before it are
  // widened to it.
  const auto row =
      std::find_if(std::rbegin(kElementFacts), std::rend(kElementFacts),
                   [&](const ElementFacts& it) { return it.message == type; });
  return row == std::rend(kElementFacts) ? ElementType::kFloat32 : row->type;
}

uint64_t Column::host_bytes() const {
  if (file != nullptr || rows == 0) return 0;
  return (PlaceOfRow(rows - 1) + width) * ElementBytes(type);
}

absl::Status Column::CheckWhole() const {
  return file == nullptr ? absl::OkStatus() : file->CheckWhole();
}

void Convert(const Column& column, uint64_t first, absl::Span<float> to) {
  ConvertColumn(column, first, to);
}
void Convert(const Column& column, uint64_t first, absl::Span<int32_t> to) {
  ConvertColumn(column, first, to);
}
void Convert(const Column& column, uint64_t first, absl::Span<int64_t> to) {
  ConvertColumn(column, first, to);
}

void Gather(const Column& column, absl::Span<const uint32_t> rows,
            absl::Span<float> to) {
  GatherColumn(column, rows, to);
}
void Gather(const Column& column, absl::Span<const uint32_t> rows,
            absl::Span<int32_t> to) {
  GatherColumn(column, rows, to);
}
void Gather(const Column& column, absl::Span<const uint32_t> rows,
            absl::Span<int64_t> to) {
  GatherColumn(column, rows, to);
}

void ConvertOnce(
    const Column& column,
    absl::FunctionRef<bool(uint64_t, absl::Span<const float>)> use) {
  ConvertChunks(column, use);
}
void ConvertOnce(
    const Column& column,
    absl::FunctionRef<bool(uint64_t, absl::Span<const int64_t>)> use) {
  ConvertChunks(column, use);
}

uint64_t FirstUnusable(const Column& column) {
  uint64_t found = column.rows * column.width;
  WithType(column.type, [&]<typename T>() {
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Half> ||
                  std::is_same_v<T, uint64_t>) {
      found = column.big_endian ? FindUnusable<T, true>(column)
                                : FindUnusable<T, false>(column);
    }
  });
  return found;
}

std::optional<PlacedNumber> FirstNotWhole(const Column& column, double limit) {
  std::optional<PlacedNumber> found;
  WithType(column.type, [&]<typename T>() {
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, Half>) {
      found = column.big_endian ? FindNotWhole<T, true>(column, limit)
                                : FindNotWhole<T, false>(column, limit);
    }
  });
  return found;
}

}  // namespace gpupool::engine
