#include "engine/data/text_reader.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/category_limits.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/base/text_limits.h"
#include "engine/base/utf8.h"
#include "engine/data/bytes/byte_stream.h"
#include "engine/data/column_buffer.h"
#include "engine/data/csv/cells.h"
#include "engine/data/label_facts.h"
#include "engine/data/tokens/tokenizer_process.h"

namespace gpupool::engine {
namespace {

constexpr size_t kPartBytes = 256 << 10;
constexpr size_t kMostCharacterBytes = 4;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr size_t kEncodedAtOnce = 64 << 10;
constexpr uint64_t kFirstTokens = 32;  // that are described
constexpr uint32_t kPiecesOfTwoBytes = 1 << 16;
constexpr uint32_t kByteValues = 256;

bool IsBlank(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' ||
         c == '\v';
}

absl::Status AtLine(uint64_t line, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", line, " ", what));
}

// Stores tokens of one type within the limits.
class TokenBuffer {
 public:
  TokenBuffer(ElementType type, const ReadLimits& limits)
      : type_(type), limits_(limits) {}

  uint64_t tokens() const { return tokens_; }

  // Takes the memory for files of so many bytes, which are as many tokens or
  // words of two bytes and a blank each.
  absl::Status Reserve(uint64_t bytes) {
    return buffer_.Reserve(std::min(bytes, limits_.memory_bytes));
  }

  // Adds the bytes of this number of tokens.
  absl::Status Add(uint64_t tokens, absl::Span<const char> bytes) {
    tokens_ += tokens;
    const uint64_t total = tokens_ * ElementBytes(type_);
    if (total > limits_.max_table_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the text has more than ",
          limits_.max_table_bytes / ElementBytes(type_),
          " tokens, the limit of a dataset; divide it into several datasets"));
    }
    if (!on_disk_ && total > limits_.memory_bytes &&
        !limits_.unpack_dir.empty()) {
      on_disk_ = true;
      RETURN_IF_ERROR(buffer_.MoveToDisk(limits_.unpack_dir));
    }
    return buffer_.Append(bytes);
  }

  // Returns the table of the tokens, at least one. Call it once.
  absl::StatusOr<Table> Finish() {
    Column features{
        .type = type_, .stored = type_, .shape = {1}, .rows = tokens_};
    RETURN_IF_ERROR(buffer_.MoveTo(features));
    Column labels = features;
    labels.shape.clear();
    labels.facts = SummarizeLabels(labels);
    Table table;
    table.rows = tokens_;
    table.inputs.push_back(std::move(features));
    table.targets.push_back(std::move(labels));
    return table;
  }

 private:
  const ElementType type_;
  const ReadLimits& limits_;
  ColumnBuffer buffer_;
  uint64_t tokens_ = 0;
  bool on_disk_ = false;
};

// Takes text in parts of whole characters.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // Takes the part, which begins in this line of the file. INVALID_ARGUMENT
  // begins with the line.
  virtual absl::Status Take(uint64_t line, std::string_view part) = 0;
  // Ends a file, which is followed by another or not.
  virtual absl::Status EndFile(bool last) = 0;
};

class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(TokenBuffer* to) : to_(*to) {}

  absl::Status Take(uint64_t, std::string_view part) override {
    line_ended_ = part.back() == '\n';
    return to_.Add(part.size(), {part.data(), part.size()});
  }

  absl::Status EndFile(bool last) override {
    const bool ended = std::exchange(line_ended_, true);
    return last || ended ? absl::OkStatus() : to_.Add(1, {"\n", 1});
  }

 private:
  TokenBuffer& to_;
  bool line_ended_ = true;
};

class WordTokenizer final : public Tokenizer {
 public:
  WordTokenizer(const std::vector<std::string>& tokens, TokenBuffer* to)
      : to_(*to) {
    for (const std::string& token : tokens) {
      numbers_.emplace(token, static_cast<uint16_t>(numbers_.size()));
    }
    const auto unknown = numbers_.find(kUnknownToken);
    if (unknown != numbers_.end()) unknown_ = unknown->second;
  }

  absl::Status Take(uint64_t line, std::string_view part) override {
    for (const char c : part) {
      if (IsBlank(c)) {
        RETURN_IF_ERROR(EndWord());
      } else {
        if (word_.empty()) word_line_ = line;
        // Longer words are in no table.
        if (word_.size() <= kMaxCategoryBytes) word_ += c;
      }
      if (c == '\n') ++line;
    }
    return absl::OkStatus();
  }

  absl::Status EndFile(bool) override { return EndWord(); }

 private:
  absl::Status EndWord() {
    if (word_.empty()) return absl::OkStatus();
    const auto found = numbers_.find(word_);
    if (found == numbers_.end() && !unknown_.has_value()) {
      return AtLine(
          word_line_,
          absl::StrCat("has the word ", QuotedCell(word_),
                       ", which is none of the ", numbers_.size(),
                       " tokens; add it to the table, or add the token ",
                       kUnknownToken, ", which stands for all other words"));
    }
    const uint16_t number = found == numbers_.end() ? *unknown_ : found->second;
    word_.clear();
    return to_.Add(1, {reinterpret_cast<const char*>(&number), sizeof(number)});
  }

  TokenBuffer& to_;
  absl::flat_hash_map<std::string, uint16_t> numbers_;
  std::optional<uint16_t> unknown_;
  std::string word_;
  uint64_t word_line_ = 0;
};

// Has a SentencePiece model encode whole lines.
class PieceTokenizer final : public Tokenizer {
 public:
  PieceTokenizer(TokenizerProcess* model, TokenBuffer* to)
      : model_(*model), to_(*to) {}

  absl::Status Take(uint64_t line, std::string_view part) override {
    if (pending_.empty()) first_line_ = line;
    pending_ += part;
    const size_t last = pending_.rfind('\n');
    const size_t whole = last == std::string::npos ? 0 : last + 1;
    if (pending_.size() - whole > kMaxTokenizedLine) {
      return AtLine(LineAfter(whole),
                    absl::StrCat("is longer than ", kMaxTokenizedLine,
                                 " bytes, the limit with a tokenizer; divide "
                                 "it into lines"));
    }
    return whole < kEncodedAtOnce ? absl::OkStatus() : Encode(whole);
  }

  absl::Status EndFile(bool) override {
    return pending_.empty() ? absl::OkStatus() : Encode(pending_.size());
  }

 private:
  uint64_t LineAfter(size_t bytes) const {
    const auto end = pending_.begin() + static_cast<ptrdiff_t>(bytes);
    return first_line_ +
           static_cast<uint64_t>(std::count(pending_.begin(), end, '\n'));
  }

  // Encodes the first bytes of what is pending, in requests that end with a
  // line.
  absl::Status Encode(size_t bytes) {
    std::string_view rest = std::string_view(pending_).substr(0, bytes);
    while (!rest.empty()) {
      const size_t end = rest.find('\n', std::min(kEncodedAtOnce, rest.size()));
      const std::string_view lines =
          end == std::string_view::npos ? rest : rest.substr(0, end + 1);
      const absl::Status encoded = model_.Encode(lines, ids_);
      if (!encoded.ok()) {
        return AtLine(
            LineAfter(static_cast<size_t>(rest.data() - pending_.data())),
            absl::StrCat("and after it: ", encoded.message()));
      }
      RETURN_IF_ERROR(Store());
      rest.remove_prefix(lines.size());
    }
    first_line_ = LineAfter(bytes);
    pending_.erase(0, bytes);
    return absl::OkStatus();
  }

  absl::Status Store() {
    if (model_.facts().vocabulary > kPiecesOfTwoBytes) {
      return to_.Add(ids_.size(), {reinterpret_cast<const char*>(ids_.data()),
                                   ids_.size() * sizeof(uint32_t)});
    }
    const std::vector<uint16_t> narrow(ids_.begin(), ids_.end());
    return to_.Add(narrow.size(), {reinterpret_cast<const char*>(narrow.data()),
                                   narrow.size() * sizeof(uint16_t)});
  }

  TokenizerProcess& model_;
  TokenBuffer& to_;
  std::string pending_;
  uint64_t first_line_ = 1;  // of `pending_`
  std::vector<uint32_t> ids_;
};

// Returns the bytes of the whole characters at the front. `ends` says whether
// no text follows; without it, a character may be cut off. INVALID_ARGUMENT
// continues "line N ".
absl::StatusOr<size_t> WholeBytes(std::string_view text, bool ends,
                                  uint64_t& line) {
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == 0) {
      return AtLine(line,
                    "has a byte of zero; save the file as UTF-8 text, not as "
                    "UTF-16");
    }
    line += byte == '\n' ? 1 : 0;
    const size_t bytes = byte < 0x80 ? 1 : Utf8CharacterBytes(text.substr(at));
    if (bytes > 0) {
      at += bytes;
      continue;
    }
    if (!ends && text.size() - at < kMostCharacterBytes) return at;
    return AtLine(line, "is not UTF-8; save the file as UTF-8");
  }
  return text.size();
}

absl::Status ReadFile(std::string_view bytes, Tokenizer& tokenizer) {
  const std::unique_ptr<ByteStream> stream = OpenByteStream(bytes);
  std::string text;
  std::string part(kPartBytes, '\0');
  uint64_t line = 1;
  for (bool first = true, ended = false; !ended;) {
    const absl::StatusOr<size_t> read = stream->Read(absl::MakeSpan(part));
    if (!read.ok()) {
      return absl::Status(
          read.status().code(),
          absl::StrCat("after line ", line, ": ", read.status().message()));
    }
    ended = *read == 0;
    text.append(part, 0, *read);
    // A part of the stream may be shorter than the mark.
    if (!ended && text.size() < kByteOrderMark.size()) continue;
    if (std::exchange(first, false) &&
        text.compare(0, kByteOrderMark.size(), kByteOrderMark) == 0) {
      text.erase(0, kByteOrderMark.size());
    }
    const uint64_t begin = line;
    ASSIGN_OR_RETURN(const size_t whole, WholeBytes(text, ended, line));
    if (whole > 0) {
      RETURN_IF_ERROR(
          tokenizer.Take(begin, std::string_view(text).substr(0, whole)));
    }
    text.erase(0, whole);
  }
  return absl::OkStatus();
}

absl::Status CheckTokens(const std::vector<std::string>& tokens,
                         const ReadLimits& limits) {
  if (tokens.size() > kMaxCategories) {
    return Refuse("a table of tokens has ", tokens.size(),
                  " tokens, the limit is ", kMaxCategories,
                  "; leave rare words out, and add the token ", kUnknownToken);
  }
  absl::flat_hash_set<absl::string_view> seen;
  for (const std::string& token : tokens) {
    if (!seen.insert(token).second) {
      return Refuse("the table of tokens has ", QuotedCell(token), " twice");
    }
    if (token.empty() || std::any_of(token.begin(), token.end(), IsBlank)) {
      return Refuse("the token ", QuotedCell(token),
                    " is empty or has a blank, so that no word is equal to ",
                    "it; leave it out");
    }
    if (limits.is_new && token.find('\0') != std::string::npos) {
      return Refuse("the token ", QuotedCell(token),
                    " has a byte of zero, which no text has; leave it out");
    }
  }
  return absl::OkStatus();
}

// Reads the files through the tokenizer, which knows `vocabulary` tokens, into
// the buffer.
absl::StatusOr<Table> ReadFiles(absl::Span<const TextFile> files,
                                uint32_t vocabulary, Tokenizer& tokenizer,
                                TokenBuffer& buffer) {
  uint64_t file_bytes = files.size();
  for (const TextFile& file : files) file_bytes += file.bytes.size();
  RETURN_IF_ERROR(buffer.Reserve(file_bytes));
  for (size_t i = 0; i < files.size(); ++i) {
    RETURN_IF_ERROR(
        AtPlace(files[i].name, ReadFile(files[i].bytes, tokenizer)));
    RETURN_IF_ERROR(
        AtPlace(files[i].name, tokenizer.EndFile(i + 1 == files.size())));
  }
  if (buffer.tokens() == 0) return Refuse("the text has no token");
  ASSIGN_OR_RETURN(Table table, buffer.Finish());
  // A model of the text knows all tokens, also those that the text has not.
  table.targets.front().facts.maximum = vocabulary - 1;
  return table;
}

// Returns the first tokens of a text.
std::vector<uint32_t> FirstTokens(const Table& table) {
  std::vector<int64_t> numbers(std::min(table.rows, kFirstTokens));
  Convert(table.labels(), 0, absl::MakeSpan(numbers));
  return {numbers.begin(), numbers.end()};
}

std::string ByteName(uint32_t byte) {
  if (byte > ' ' && byte < 0x7F) return std::string(1, static_cast<char>(byte));
  const std::string hex = absl::StrCat(absl::Hex(byte, absl::kZeroPad2));
  return absl::StrCat("<0x", absl::AsciiStrToUpper(hex), ">");
}

TextFacts::Tokenizer KindOf(TokenizerKind kind) {
  switch (kind) {
    case TokenizerKind::kUnigram:
      return TextFacts::Tokenizer::kUnigram;
    case TokenizerKind::kBpe:
      return TextFacts::Tokenizer::kBpe;
    case TokenizerKind::kWord:
      return TextFacts::Tokenizer::kWordPieces;
    case TokenizerKind::kCharacter:
      return TextFacts::Tokenizer::kCharacters;
  }
  return TextFacts::Tokenizer::kUnigram;
}

}  // namespace

absl::StatusOr<Table> ReadText(absl::Span<const TextFile> files,
                               const std::vector<std::string>& tokens,
                               const ReadLimits& limits) {
  RETURN_IF_ERROR(CheckTokens(tokens, limits));
  const bool bytes = tokens.empty();
  const uint32_t vocabulary =
      bytes ? kByteValues : static_cast<uint32_t>(tokens.size());
  TokenBuffer buffer(bytes ? ElementType::kUint8 : ElementType::kUint16,
                     limits);
  std::unique_ptr<Tokenizer> tokenizer;
  if (bytes) {
    tokenizer = std::make_unique<ByteTokenizer>(&buffer);
  } else {
    tokenizer = std::make_unique<WordTokenizer>(tokens, &buffer);
  }
  ASSIGN_OR_RETURN(Table table,
                   ReadFiles(files, vocabulary, *tokenizer, buffer));
  table.class_names = tokens;
  table.text = {.tokenizer = bytes ? TextFacts::Tokenizer::kBytes
                                   : TextFacts::Tokenizer::kWords,
                .vocabulary = vocabulary,
                .first = {}};
  for (const uint32_t token : FirstTokens(table)) {
    table.text->first.push_back(bytes ? ByteName(token) : tokens[token]);
  }
  return table;
}

absl::StatusOr<Table> ReadPieces(absl::Span<const TextFile> files,
                                 const TextFile& tokenizer,
                                 const ReadLimits& limits) {
  auto model =
      TokenizerProcess::Start(limits.tokenizer_program, tokenizer.bytes);
  if (!model.ok()) return AtPlace(tokenizer.name, model.status());
  const uint32_t vocabulary = (*model)->facts().vocabulary;
  TokenBuffer buffer(vocabulary > kPiecesOfTwoBytes ? ElementType::kInt32
                                                    : ElementType::kUint16,
                     limits);
  PieceTokenizer pieces(model->get(), &buffer);
  ASSIGN_OR_RETURN(Table table, ReadFiles(files, vocabulary, pieces, buffer));
  auto first = (*model)->Names(FirstTokens(table));
  if (!first.ok()) return AtPlace(tokenizer.name, first.status());
  table.text = {.tokenizer = KindOf((*model)->facts().kind),
                .vocabulary = vocabulary,
                .first = *std::move(first)};
  return table;
}

}  // namespace gpupool::engine
