// Text that SentencePiece can learn, and models of it, for tests.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "engine/tokenizer/sentencepiece_trainer.h"

namespace gpupool::engine {

inline std::string Story() {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += std::string("the ") + (i % 2 == 0 ? "cat" : "dog") + " sees the " +
            (i % 3 == 0 ? "sun" : "moon") + "\n";
  }
  return text;
}

// Writes a file that belongs to this test and process. Returns its path.
inline std::string WriteTemporary(const std::string& name,
                                  const std::string& text) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string path = ::testing::TempDir() + "/" + test->name() + "." +
                           std::to_string(::getpid()) + "." + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// Returns the bytes of a model of Story(), with 280 pieces.
inline std::string StoryModel(TokenizerKind kind = TokenizerKind::kBpe) {
  const std::string path = WriteTemporary("story.txt", Story());
  std::string model;
  EXPECT_EQ(TrainSentencePiece(
                {.kind = kind, .vocabulary = 280, .files = {path}}, &model),
            "");
  ::unlink(path.c_str());
  return model;
}

}  // namespace gpupool::engine
