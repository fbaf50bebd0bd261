#include "engine/data/samples/samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/data/image_files.h"

namespace gpupool::engine {
namespace {

using files::Tar;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SampleKind Leaves() {
  return {.noun = "leaf",
          .formats = "LEAF",
          .listed_endings = ".leaf",
          .example = "NAME.leaf",
          .endings = {".leaf"},
          .refused = {".twig"}};
}

std::string RefusalOfSamples(const std::string& archive) {
  const auto found = FindSamples({{"a.tar", archive}}, Leaves(), {});
  EXPECT_TRUE(absl::IsInvalidArgument(found.status())) << found.status();
  return std::string(found.status().message());
}

TEST(SamplesTest, FoldersAreClassesInTheOrderOfTheirNames) {
  const std::string first = Tar({{"oak/1.leaf", "1"}, {"oak/.2.leaf", "x"}});
  const std::string second = Tar({{"elm/3.LEAF", "3"}, {"elm/4.txt", "x"}});
  const auto found =
      FindSamples({{"a.tar", first}, {"b.tar", second}}, Leaves(), {});
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->samples.size(), 2u);
  EXPECT_EQ(found->samples[1].bytes, "3");
  EXPECT_EQ(PlaceOf(found->samples[1]), "b.tar: elm/3.LEAF");
  EXPECT_THAT(found->classes.names, ElementsAre("elm", "oak"));
  EXPECT_THAT(found->classes.of_samples, ElementsAre(1, 0));
}

TEST(SamplesTest, NumbersInFilesAreTheClasses) {
  const auto found = FindSamples({{"a.tar", Tar({{"1.leaf", "1"},
                                                 {"1.cls", "7\n"},
                                                 {"2.leaf", "2"},
                                                 {"2.cls", "3"}})}},
                                 Leaves(), {});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_THAT(found->classes.names, IsEmpty());
  EXPECT_THAT(found->classes.of_samples, ElementsAre(7, 3));
}

TEST(SamplesTest, RefusalsNameTheKind) {
  EXPECT_THAT(RefusalOfSamples(Tar({{"oak/1.twig", "x"}})),
              HasSubstr("oak/1.twig: only LEAF files can be read"));
  EXPECT_THAT(RefusalOfSamples(Tar({{"oak/1.txt", "x"}})),
              HasSubstr("holds no leaf (.leaf)"));
  EXPECT_THAT(RefusalOfSamples(Tar({{"oak/1.leaf", "x"}})),
              HasSubstr("1 leaf of one class only, \"oak\""));
}

}  // namespace
}  // namespace gpupool::engine
