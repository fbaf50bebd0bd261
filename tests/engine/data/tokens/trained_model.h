// SentencePiece models for tests of programs that link protobuf, and so cannot
// link SentencePiece: gpupool-tokenizer trains them.
#pragma once

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/engine/scratch_folder.h"
#include "tests/test_paths.h"

namespace gpupool::engine {

inline std::string TokenizerProgram() {
  return BinaryPath("gpupool-tokenizer");
}

inline std::string CatsAndDogs() {
  std::string text;
  for (int i = 0; i < 200; ++i) {
    text += std::string("the ") + (i % 2 == 0 ? "cat" : "dog") + " sees the " +
            (i % 3 == 0 ? "sun" : "moon") + "\n";
  }
  return text;
}

// Returns the bytes of a BPE model of CatsAndDogs() with 280 pieces.
inline std::string TrainedModel() {
  const ScratchFolder folder;
  std::string text = folder.path() + "/a.txt";
  std::string model = folder.path() + "/a.model";
  std::ofstream(text) << CatsAndDogs();
  std::string program = TokenizerProgram();
  std::string train = "train", kind = "bpe", pieces = "280";
  std::array<char*, 7> arguments = {program.data(), train.data(), kind.data(),
                                    pieces.data(),  model.data(), text.data(),
                                    nullptr};
  pid_t pid = 0;
  EXPECT_EQ(::posix_spawn(&pid, program.c_str(), nullptr, nullptr,
                          arguments.data(), ::environ),
            0)
      << program;
  int status = -1;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  std::ifstream file(model, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace gpupool::engine
