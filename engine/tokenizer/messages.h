// The messages between the engine and the program gpupool-tokenizer, over a
// stream socket, and their limits. Plain types, because the program cannot
// include Abseil's headers beside SentencePiece's.
//
//   message = kind:u32 bytes:u32 payload[bytes]      in the host's byte order
//
//   request                             answer
//   kLoad    a SentencePiece model      kModel   a TokenizerModel
//   kEncode  lines with their ends      kIds     u32 for each token
//   kNames   u32 for each token         kNamed   texts, each with a zero after
//   it
//
// kLoad is the first request. Each request has one answer, and the next request
// follows it. The answer kError is a text, after which the program ends.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupool::engine {

enum class TokenizerMessage : uint32_t {
  kError = 1,
  kLoad,
  kModel,
  kEncode,
  kIds,
  kNames,
  kNamed,
};

struct TokenizerHeader {
  TokenizerMessage kind = TokenizerMessage::kError;
  uint32_t bytes = 0;
};

// The values are those of SentencePiece's TrainerSpec.ModelType.
enum class TokenizerKind : uint32_t {
  kUnigram = 1,
  kBpe = 2,
  kWord = 3,
  kCharacter = 4,
};

struct TokenizerModel {
  TokenizerKind kind = TokenizerKind::kUnigram;
  uint32_t vocabulary = 0;  // number of pieces
  int32_t line_end = -1;    // piece after each line; -1: none
};

// Size of a model file. The largest that are in use have 5 MiB.
inline constexpr size_t kMaxTokenizerBytes = size_t{16} << 20;
inline constexpr uint32_t kMaxTokenizerPieces = 1 << 18;
inline constexpr size_t kMaxTokenizerPieceBytes = 256;
// Bytes of a line of text, and of the lines of one request.
inline constexpr size_t kMaxTokenizedLine = size_t{1} << 20;
inline constexpr size_t kMaxTokenizedText = size_t{2} << 20;
// Tokens of one request.
inline constexpr size_t kMaxTokenizerIds = size_t{16} << 20;

}  // namespace gpupool::engine
