// gpupool datasets tokenizer train with a script instead of the program.
#include <sys/stat.h>

#include "tests/client/cli/command_test_base.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

class DatasetsTokenizerTest : public CommandTest {
 protected:
  // Runs the verb with a program that runs `script`.
  int Train(const std::string& script, std::vector<std::string> more = {}) {
    const std::string program = WriteFile("tokenizer", "#!/bin/sh\n" + script);
    ::chmod(program.c_str(), 0700);
    more.insert(more.begin(), {"datasets", "tokenizer", "train",
                               WriteFile("a.txt", "the cat"), "--out",
                               "a.model", "--tokenizer-binary", program});
    return Run(more);
  }
};

TEST_F(DatasetsTokenizerTest, TheProgramGetsTheArguments) {
  EXPECT_EQ(Train("[ \"$1 $2 $3 $4\" = 'train unigram 500 a.model' ] && [ -e "
                  "\"$5\" ] && echo 500",
                  {"--kind", "unigram", "--vocab-size", "500"}),
            0)
      << err();
  EXPECT_EQ(out(), "a.model: 500 pieces, unigram\n");
  EXPECT_EQ(err(), "");
  EXPECT_EQ(Train("[ \"$2 $3\" = 'bpe 8000' ] && echo 8000"), 0) << err();
}

TEST_F(DatasetsTokenizerTest, FewerPiecesAreTold) {
  EXPECT_EQ(Train("echo 461"), 0);
  EXPECT_THAT(err(), HasSubstr("the texts have no more than 461 pieces; "
                               "--vocab-size is 8,000"));
}

TEST_F(DatasetsTokenizerTest, ItsErrorsAreErrors) {
  EXPECT_EQ(Train("echo a.txt: line 3 has a byte of zero; exit 1"), 2);
  EXPECT_THAT(err(), HasSubstr("a.txt: line 3 has a byte of zero"));
  EXPECT_NE(Train("kill -ABRT $$"), 0);
  EXPECT_THAT(err(), HasSubstr("was killed by signal 6"));
  EXPECT_NE(Train("echo nonsense"), 0);
  EXPECT_THAT(err(), HasSubstr("of one build"));
}

TEST_F(DatasetsTokenizerTest, ArgumentsAreCheckedBeforeTheProgramRuns) {
  for (const char* pieces : {"259", "262145", "-1", "many"}) {
    EXPECT_EQ(Train("echo 1", {"--vocab-size", pieces}), 2) << pieces;
  }
  EXPECT_EQ(Train("echo 1", {"--kind", "word"}), 2);
  EXPECT_NE(Train("echo 1", {"/nowhere/a.txt"}), 0);
  EXPECT_THAT(err(), HasSubstr("/nowhere/a.txt"));
  EXPECT_NE(Run({"datasets", "tokenizer", "train", WriteFile("a.txt", "a"),
                 "--out", "a.model", "--tokenizer-binary", "/nowhere/none"}),
            0);
  EXPECT_THAT(err(), HasSubstr("install gpupool-tokenizer beside gpupool"));
}

}  // namespace
}  // namespace gpupool::client
