#include "engine/data/tokens/tokenizer_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "tests/engine/data/tokens/trained_model.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns why a process with this program and model does not start.
absl::Status StartError(const std::string& program,
                        const std::string& model = "m") {
  return TokenizerProcess::Start(program, model).status();
}

// Returns a program that runs the script.
std::string ScriptProgram(const ScratchFolder& folder,
                          const std::string& script) {
  const std::string path = folder.path() + "/program";
  std::ofstream(path) << "#!/bin/sh\n" << script;
  ::chmod(path.c_str(), 0700);
  return path;
}

TEST(TokenizerProcessTest, LinesBecomeTokensWithNames) {
  auto process = TokenizerProcess::Start(TokenizerProgram(), TrainedModel());
  ASSERT_TRUE(process.ok()) << process.status();
  EXPECT_EQ((*process)->facts().vocabulary, 280u);
  EXPECT_EQ((*process)->facts().kind, TokenizerKind::kBpe);
  std::vector<uint32_t> ids;
  ASSERT_TRUE((*process)->Encode("the\nthe", ids).ok());
  ASSERT_EQ(ids.size(), 4u);
  EXPECT_EQ(ids[0], ids[2]);
  const auto names = (*process)->Names(ids);
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names, ElementsAre("▁the", "</s>", "▁the", "</s>"));
  EXPECT_THAT(*(*process)->Names({}), ::testing::IsEmpty());
  ASSERT_TRUE((*process)->Encode("", ids).ok());
  EXPECT_THAT(ids, ::testing::IsEmpty());
}

TEST(TokenizerProcessTest, LongTextsGoThroughTheSocketInParts) {
  auto process = TokenizerProcess::Start(TokenizerProgram(), TrainedModel());
  ASSERT_TRUE(process.ok()) << process.status();
  std::string text;
  while (text.size() < kMaxTokenizedLine) text += CatsAndDogs();
  std::vector<uint32_t> ids;
  const absl::Status encoded = (*process)->Encode(text, ids);
  ASSERT_TRUE(encoded.ok()) << encoded;
  EXPECT_GT(ids.size(), 4 * text.size() / CatsAndDogs().size() * 200);
}

TEST(TokenizerProcessTest, AFileThatIsNoModelIsRefused) {
  const absl::Status status = StartError(TokenizerProgram(), "the cat");
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the tokenizer is no SentencePiece model"));
  EXPECT_THAT(std::string(StartError(TokenizerProgram(),
                                     std::string(kMaxTokenizerBytes + 1, 'a'))
                              .message()),
              HasSubstr("has 16777217 bytes, the limit is 16777216"));
}

TEST(TokenizerProcessTest, AProgramThatDoesNotStartHasARemedy) {
  const absl::Status status = StartError("/nowhere/program");
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("cannot start /nowhere/program: No such file or "
                        "directory; install gpupool-tokenizer beside"));
}

// Refuses execve to this process, as the sandbox does without Landlock.
// Returns false if the system has no filters.
bool RefuseExecve() {
  std::array<sock_filter, 4> steps = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter = {steps.size(), steps.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST(TokenizerProcessTest, ASandboxThatForbidsProgramsHasARemedy) {
  constexpr int kNoFilter = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    if (!RefuseExecve()) ::_exit(kNoFilter);
    const absl::Status status = StartError("/bin/true");
    const bool named =
        absl::IsUnavailable(status) &&
        absl::StrContains(status.message(), "cannot start /bin/true: ") &&
        absl::StrContains(status.message(), "only on a kernel with Landlock") &&
        absl::StrContains(status.message(), "`--sandbox off`");
    ::_exit(named ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoFilter) GTEST_SKIP() << "no seccomp";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(TokenizerProcessTest, AModelThatEndsTheProgramIsRefused) {
  const ScratchFolder folder;
  const std::string crash = ScriptProgram(folder, "kill -SEGV $$\n");
  EXPECT_THAT(std::string(StartError(crash).message()),
              HasSubstr("the tokenizer ended the program that reads it (signal "
                        "11); the file is damaged"));
  const std::string ends = ScriptProgram(folder, "exit 0\n");
  EXPECT_TRUE(absl::IsInvalidArgument(StartError(ends)));
}

TEST(TokenizerProcessTest, AnswersThatBreakTheFormAreRefused) {
  const ScratchFolder folder;
  for (const char* answer : {
           R"(\003\000\000\000\377\377\377\377)",      // too long
           R"(\003\000\000\000\004\000\000\000aaaa)",  // too short for a model
           R"(\011\000\000\000\000\000\000\000)",      // of no known kind
           R"(\005\000\000\000\000\000\000\000)",      // of another request
       }) {
    const std::string program = ScriptProgram(
        folder, std::string("printf '") + answer + "'\ncat > /dev/null\n");
    const absl::Status status = StartError(program);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << answer << status;
  }
}

TEST(TokenizerProcessTest, ErrorsAreUtf8) {
  const ScratchFolder folder;
  const std::string program = ScriptProgram(
      folder, R"(printf '\001\000\000\000\003\000\000\000a\377b'; cat >/dev/null
)");
  EXPECT_EQ(StartError(program).message(), "the tokenizer a?b");
}

}  // namespace
}  // namespace gpupool::engine
