#include "engine/tokenizer/sentencepiece_model.h"

#include <sentencepiece_processor.h>

#include <optional>

namespace gpupool::engine {
namespace {

constexpr uint64_t kTrainerSpecField = 2;  // of ModelProto
constexpr uint64_t kModelTypeField = 3;    // of TrainerSpec

std::optional<uint64_t> TakeVarint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// A field of a protobuf message.
struct WireField {
  uint64_t number = 0;
  uint64_t value = 0;      // of a varint
  std::string_view bytes;  // of a text or message
};

// Takes the field at the front. Returns nothing at the end and for damage.
std::optional<WireField> TakeField(std::string_view& message) {
  const std::optional<uint64_t> key = TakeVarint(message);
  if (!key.has_value()) return std::nullopt;
  WireField field = {.number = *key >> 3, .value = 0, .bytes = {}};
  uint64_t size = 0;
  switch (*key & 7) {
    case 0: {
      const std::optional<uint64_t> value = TakeVarint(message);
      if (!value.has_value()) return std::nullopt;
      field.value = *value;
      return field;
    }
    case 1:
      size = 8;
      break;
    case 2: {
      const std::optional<uint64_t> given = TakeVarint(message);
      if (!given.has_value()) return std::nullopt;
      size = *given;
      break;
    }
    case 5:
      size = 4;
      break;
    default:
      return std::nullopt;
  }
  if (size > message.size()) return std::nullopt;
  field.bytes = message.substr(0, size);
  message.remove_prefix(size);
  return field;
}

}  // namespace

struct SentencePieceModel::Impl {
  sentencepiece::SentencePieceProcessor processor;
};

SentencePieceModel::SentencePieceModel() : impl_(std::make_unique<Impl>()) {}
SentencePieceModel::~SentencePieceModel() = default;

std::string SentencePieceModel::Load(std::string_view bytes) {
  if (bytes.size() > kMaxTokenizerBytes) {
    return "has " + std::to_string(bytes.size()) + " bytes, the limit is " +
           std::to_string(kMaxTokenizerBytes);
  }
  const auto loaded = impl_->processor.LoadFromSerializedProto(bytes);
  if (!loaded.ok()) {
    const std::string why = loaded.message();
    return "is no SentencePiece model" + (why.empty() ? "" : " (" + why + ")");
  }
  const int pieces = impl_->processor.GetPieceSize();
  if (pieces < 1 || pieces > static_cast<int>(kMaxTokenizerPieces)) {
    return "has " + std::to_string(pieces) + " pieces, the limit is " +
           std::to_string(kMaxTokenizerPieces);
  }
  facts_.kind = KindOfModel(bytes);
  facts_.vocabulary = static_cast<uint32_t>(pieces);
  facts_.line_end = impl_->processor.eos_id();
  return CheckPieces();
}

std::string SentencePieceModel::CheckPieces() const {
  for (uint32_t id = 0; id < facts_.vocabulary; ++id) {
    const std::string& piece = impl_->processor.IdToPiece(static_cast<int>(id));
    if (piece.size() > kMaxTokenizerPieceBytes) {
      return "has a piece of " + std::to_string(piece.size()) +
             " bytes, number " + std::to_string(id) + ", the limit is " +
             std::to_string(kMaxTokenizerPieceBytes);
    }
  }
  return "";
}

std::string SentencePieceModel::Encode(std::string_view lines,
                                       std::vector<uint32_t>* ids) const {
  std::vector<int> of_line;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    std::string_view line = lines.substr(0, end);
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const auto encoded = impl_->processor.Encode(line, &of_line);
    if (!encoded.ok()) {
      return std::string("cannot encode a line: ") + encoded.message();
    }
    if (facts_.line_end >= 0) of_line.push_back(facts_.line_end);
    if (ids->size() + of_line.size() > kMaxTokenizerIds) {
      return "makes more than " + std::to_string(kMaxTokenizerIds) +
             " tokens of the lines";
    }
    for (const int id : of_line) {
      if (id < 0 || static_cast<uint32_t>(id) >= facts_.vocabulary) {
        return "makes the token " + std::to_string(id) + " of a line";
      }
      ids->push_back(static_cast<uint32_t>(id));
    }
  }
  return "";
}

std::string SentencePieceModel::PieceName(uint32_t id) const {
  std::string name = impl_->processor.IdToPiece(static_cast<int>(id));
  for (char& c : name) {
    if (c == '\0') c = ' ';
  }
  return name;
}

TokenizerKind KindOfModel(std::string_view bytes) {
  while (std::optional<WireField> field = TakeField(bytes)) {
    if (field->number != kTrainerSpecField) continue;
    std::string_view spec = field->bytes;
    while (std::optional<WireField> option = TakeField(spec)) {
      if (option->number == kModelTypeField && option->value >= 1 &&
          option->value <= 4) {
        return static_cast<TokenizerKind>(option->value);
      }
    }
  }
  return TokenizerKind::kUnigram;
}

}  // namespace gpupool::engine
