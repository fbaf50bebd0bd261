// Trains a SentencePiece model on text files. Errors are texts, empty when
// there is none, for the reason that sentencepiece_model.h gives. One thread at
// a time: SentencePiece's logging and random numbers are global.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/tokenizer/messages.h"

namespace gpupool::engine {

// SentencePiece keeps the texts in memory several times.
inline constexpr size_t kMaxTrainedText = size_t{1} << 30;

struct TokenizerTraining {
  TokenizerKind kind = TokenizerKind::kBpe;  // kBpe or kUnigram
  // The most pieces: the 3 controls, 256 bytes and each character of the texts
  // are among them. Fewer if the texts have no more.
  uint32_t vocabulary = 8000;
  std::vector<std::string> files;  // UTF-8, plain
};

// Trains on the lines of the files, in their order, and stores the bytes of the
// model file. The same texts give the same bytes. Piece 0 is <unk>, 1 <s> and
// 2 </s>, and characters that the texts do not have become bytes. Returns why
// that is impossible; names the file, line, value and limit.
std::string TrainSentencePiece(const TokenizerTraining& training,
                               std::string* model);

}  // namespace gpupool::engine
