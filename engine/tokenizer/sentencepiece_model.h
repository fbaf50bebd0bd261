// A SentencePiece model: text becomes the numbers of pieces.
//
// SentencePiece trusts its models: some damaged ones end the process. So this
// runs in a process of its own, gpupool-tokenizer. Errors are texts, empty when
// there is none, because SentencePiece's headers and Abseil's both define
// absl::string_view. Not thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/messages.h"

namespace gpupool::engine {

class SentencePieceModel {
 public:
  SentencePieceModel();
  ~SentencePieceModel();
  SentencePieceModel(const SentencePieceModel&) = delete;
  SentencePieceModel& operator=(const SentencePieceModel&) = delete;

  // Loads the bytes of a model file. Returns why they are none, or which limit
  // the model exceeds. Call it once, before all others.
  std::string Load(std::string_view bytes);
  const TokenizerModel& facts() const { return facts_; }
  // Adds the pieces of each line, which may end in "\n" or "\r\n", and after
  // each the piece `line_end` if there is one. Returns why that is impossible.
  std::string Encode(std::string_view lines, std::vector<uint32_t>* ids) const;
  // Returns the text of a piece below `vocabulary`, without bytes of zero.
  std::string PieceName(uint32_t id) const;

 private:
  struct Impl;
  std::string CheckPieces() const;

  std::unique_ptr<Impl> impl_;
  TokenizerModel facts_;
};

// Returns the kind of model that a model file names: unigram if it names none.
// A file that is no protobuf message may have any kind.
TokenizerKind KindOfModel(std::string_view bytes);

}  // namespace gpupool::engine
