// Reader of text files as one series of tokens, for language models.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/table.h"

namespace gpupool::engine {

// A text file, plain or gzip, whose bytes the caller keeps alive.
struct TextFile {
  std::string name;  // for errors
  std::string_view bytes;
};

// Reads the files one after the other into a table with a row for each token.
// The token is the feature, of shape [1], and the label, of shape [], which
// share their bytes.
// - Without `tokens`, tokens are the bytes, uint8. A file that does not end
//   with a line feed gets one if another file follows.
// - Else tokens are the words between blanks and line ends, uint16: their place
//   in `tokens`, or that of kUnknownToken for a word that is not there. The
//   table then has them as class names.
// Labels count as classes up to the last token of `tokens`, or to byte 255.
// A byte order mark at the beginning of a file is left out.
//   INVALID_ARGUMENT    text is not UTF-8, has a byte of zero or an unknown
//                       word, or there is no token, or too many `tokens`; names
//                       file and line. If limits.is_new, also for a byte of
//                       zero in `tokens`
//   RESOURCE_EXHAUSTED  the table would exceed `limits`, or the disk is full
absl::StatusOr<Table> ReadText(absl::Span<const TextFile> files,
                               const std::vector<std::string>& tokens,
                               const ReadLimits& limits);

// Reads the files as ReadText does, by a SentencePiece model, whose bytes are
// `tokenizer`. Tokens are the pieces of each line and after it the model's end
// of a sentence, if it has one: uint16, or int32 for more than 65,536 pieces.
// Labels count as classes up to the last piece.
//   INVALID_ARGUMENT    as ReadText; or the model is damaged, exceeds a limit,
//                       or cannot encode the text, or a line has over 1 MiB
//   RESOURCE_EXHAUSTED  as ReadText
//   UNAVAILABLE         the program gpupool-tokenizer cannot be started
absl::StatusOr<Table> ReadPieces(absl::Span<const TextFile> files,
                                 const TextFile& tokenizer,
                                 const ReadLimits& limits);

}  // namespace gpupool::engine
