#include "engine/base/sha256.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

// FIPS 180-4 examples.
constexpr char kEmpty[] =
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr char kAbc[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Sha256Test, MatchesTheStandardsExamples) {
  EXPECT_EQ(Sha256Hex(""), kEmpty);
  EXPECT_EQ(Sha256Hex("abc"), kAbc);
}

TEST(Sha256Test, PiecesGiveTheDigestOfTheWhole) {
  Sha256 sha;
  sha.Update("a");
  sha.Update("");
  sha.Update("bc", 2);
  EXPECT_EQ(sha.FinishHex(), kAbc);
  EXPECT_EQ(sha.FinishHex(), kEmpty) << "finishing starts a new digest";
}

TEST(Sha256Test, ReadsFiles) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/file";
  std::ofstream(path, std::ios::binary) << "abc";
  auto digest = Sha256HexOfFile(path);
  ASSERT_TRUE(digest.ok()) << digest.status();
  EXPECT_EQ(*digest, kAbc);
  EXPECT_EQ(Sha256HexOfFile(path + ".missing").status().code(),
            absl::StatusCode::kNotFound);
}

TEST(Sha256Test, OnlyLowerCaseHexOfFullLengthIsADigest) {
  EXPECT_TRUE(IsSha256Hex(kAbc));
  EXPECT_FALSE(IsSha256Hex(""));
  EXPECT_FALSE(IsSha256Hex(std::string(63, 'a')));
  EXPECT_FALSE(IsSha256Hex(std::string(64, 'A')));
  EXPECT_FALSE(IsSha256Hex("../" + std::string(61, 'a')));
}

}  // namespace
}  // namespace gpupool::engine
