// gpupool-tokenizer: SentencePiece in a process of its own. It has no user
// interface: the engine and gpupool start it.
//
//   gpupool-tokenizer encode                    messages.h on standard input
//   gpupool-tokenizer train bpe|unigram PIECES MODEL FILE...
//
// It is a program and no library of ours for two reasons. Debian's
// libsentencepiece exports an older protobuf under the names of libprotobuf, so
// the two cannot be in one process. And a damaged model can end the process
// that loads it.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "engine/tokenizer/answer_requests.h"
#include "engine/tokenizer/sentencepiece_model.h"
#include "engine/tokenizer/sentencepiece_trainer.h"

namespace gpupool::engine {
namespace {

constexpr int kUsage = 64;
constexpr int kFailure = 1;

// Bounds what a hostile model can take: no core dumps, no files, 4 GiB of
// memory, no look into this process by others, and no life without the engine.
void Confine() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  ::setrlimit(RLIMIT_FSIZE, &none);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const rlimit memory = {rlim_t{4} << 30, rlim_t{4} << 30};
  ::setrlimit(RLIMIT_AS, &memory);
#endif
}

int Fail(const std::string& text) {
  std::fprintf(stdout, "%s\n", text.c_str());
  return kFailure;
}

std::string SystemError(const std::string& path) {
  return path + " cannot be written: " + std::strerror(errno);
}

// Writes the file, or leaves what was there.
std::string WriteModel(const std::string& path, const std::string& bytes) {
  std::string part = path + ".XXXXXX";
  const int file = ::mkstemp(part.data());
  if (file < 0) return SystemError(path);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  bool written = ::fchmod(file, 0666 & ~mask) == 0;
  for (size_t done = 0; written && done < bytes.size();) {
    const ssize_t count =
        ::write(file, bytes.data() + done, bytes.size() - done);
    written = count > 0;
    if (written) done += static_cast<size_t>(count);
  }
  written = written && ::fsync(file) == 0;
  std::string error = written ? "" : SystemError(path);
  ::close(file);
  if (written && ::rename(part.c_str(), path.c_str()) != 0) {
    error = SystemError(path);
  }
  if (!error.empty()) ::unlink(part.c_str());
  return error;
}

// Prints the number of pieces, or the error.
int Train(int count, char** arguments) {
  TokenizerTraining training;
  const std::string kind = arguments[0];
  if (kind != "bpe" && kind != "unigram") return kUsage;
  training.kind = kind == "bpe" ? TokenizerKind::kBpe : TokenizerKind::kUnigram;
  char* end = nullptr;
  const unsigned long pieces = std::strtoul(arguments[1], &end, 10);
  if (*end != '\0' || pieces > kMaxTokenizerPieces) return kUsage;
  training.vocabulary = static_cast<uint32_t>(pieces);
  const std::string out = arguments[2];
  training.files.assign(arguments + 3, arguments + count);
  std::string model;
  std::string error = TrainSentencePiece(training, &model);
  if (!error.empty()) return Fail(error);
  SentencePieceModel trained;
  error = trained.Load(model);
  if (!error.empty()) return Fail("the trained model " + error);
  error = WriteModel(out, model);
  if (!error.empty()) return Fail(error);
  std::fprintf(stdout, "%u\n", trained.facts().vocabulary);
  return 0;
}

int Run(int count, char** arguments) {
  const std::string verb = count > 1 ? arguments[1] : "";
  if (verb == "encode" && count == 2) {
    Confine();
    if (!EndWithOtherSide(STDIN_FILENO)) return kFailure;
    return AnswerRequests(STDIN_FILENO);
  }
  if (verb == "train" && count > 5) return Train(count - 2, arguments + 2);
  std::fputs(
      "gpupool-tokenizer is started by gpupool and gpupool-worker; use "
      "`gpupool datasets tokenizer train`\n",
      stderr);
  return kUsage;
}

}  // namespace
}  // namespace gpupool::engine

int main(int count, char** arguments) {
  return gpupool::engine::Run(count, arguments);
}
