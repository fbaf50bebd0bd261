#include "engine/tokenizer/sentencepiece_trainer.h"

#include <sentencepiece_trainer.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <unordered_map>
#include <utility>

namespace gpupool::engine {
namespace {

constexpr uint32_t kFewestPieces = 260;  // 3 controls, 256 bytes, a character

// Gives SentencePiece the lines of the files, within the limits.
class FileLines final : public sentencepiece::SentenceIterator {
 public:
  explicit FileLines(const std::vector<std::string>& files) : files_(files) {
    Next();
  }

  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }
  // The reason for which the lines end early, or nothing.
  const std::string& error() const { return error_; }
  bool any() const { return total_ > 0; }

  void Next() override {
    while (!done_) {
      if (!input_.is_open() && !OpenNext()) return;
      if (std::getline(input_, line_)) {
        ++number_;
        Check();
        if (line_.empty() && !done_) continue;
        return;
      }
      if (input_.bad()) return Fail("cannot be read");
      input_.close();
    }
  }

 private:
  bool OpenNext() {
    if (next_ == files_.size()) {
      done_ = true;
      return false;
    }
    number_ = 0;
    input_.clear();
    input_.open(files_[next_++], std::ios::binary);
    if (input_.is_open()) return true;
    number_ = 0;
    Fail(std::string("cannot be opened: ") + std::strerror(errno));
    return false;
  }

  void Check() {
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    if (number_ == 1 && line_.compare(0, 3, "\xEF\xBB\xBF") == 0) {
      line_.erase(0, 3);
    }
    total_ += line_.size();
    if (line_.size() > kMaxTokenizedLine) {
      Fail("is longer than " + std::to_string(kMaxTokenizedLine) +
           " bytes; divide it into lines");
    } else if (line_.find('\0') != std::string::npos) {
      Fail("has a byte of zero; give plain UTF-8 text");
    } else if (total_ > kMaxTrainedText) {
      Fail("is after " + std::to_string(kMaxTrainedText) +
           " bytes of text, the limit; train on a part of it");
    }
  }

  void Fail(const std::string& what) {
    error_ = files_[next_ - 1] +
             (number_ > 0 ? ": line " + std::to_string(number_) + " " : " ") +
             what;
    done_ = true;
  }

  const std::vector<std::string>& files_;
  size_t next_ = 0;
  uint64_t number_ = 0;
  size_t total_ = 0;
  std::ifstream input_;
  std::string line_;
  std::string error_;
  bool done_ = false;
};

// Returns SentencePiece's text without the place in its source. Its remedy of
// too small a vocabulary is replaced, since it names options of its own.
std::string Reason(const std::string& message) {
  const size_t begin = message.find("] ");
  std::string reason =
      begin == std::string::npos ? message : message.substr(begin + 2);
  const size_t remedy = reason.find(". Increase vocab_size");
  if (remedy != std::string::npos) {
    reason = reason.substr(0, remedy) + "; give a larger vocabulary";
  }
  return reason.empty() ? message : reason;
}

}  // namespace

std::string TrainSentencePiece(const TokenizerTraining& training,
                               std::string* model) {
  if (training.kind != TokenizerKind::kBpe &&
      training.kind != TokenizerKind::kUnigram) {
    return "the kind of model is neither bpe nor unigram";
  }
  if (training.vocabulary < kFewestPieces ||
      training.vocabulary > kMaxTokenizerPieces) {
    return "the vocabulary is " + std::to_string(training.vocabulary) +
           " pieces; write " + std::to_string(kFewestPieces) + " to " +
           std::to_string(kMaxTokenizerPieces);
  }
  FileLines lines(training.files);
  if (lines.done()) {
    return lines.error().empty() ? "the files have no text" : lines.error();
  }
  const std::unordered_map<std::string, std::string> options = {
      {"model_type", training.kind == TokenizerKind::kBpe ? "bpe" : "unigram"},
      {"vocab_size", std::to_string(training.vocabulary)},
      {"byte_fallback", "true"},
      {"hard_vocab_limit", "false"},
      {"max_sentence_length", std::to_string(kMaxTokenizedLine)},
      // Sums of several threads depend on their number.
      {"num_threads", "1"},
      {"minloglevel", "2"}};
  const auto trained =
      sentencepiece::SentencePieceTrainer::Train(options, &lines, model);
  if (!lines.error().empty()) return lines.error();
  if (!trained.ok()) {
    return "SentencePiece cannot train: " + Reason(trained.message());
  }
  return "";
}

}  // namespace gpupool::engine
