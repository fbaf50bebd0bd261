#include "engine/backends/cuda/library_survey.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace gpupool::engine::cuda {
namespace {

// A folder with copies of the stand-in under names that a test gives them. Each
// copy is a separate file, because the linker identifies libraries by file.
class LibrarySurveyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/librariesXXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void Put(const std::string& file) {
    std::filesystem::copy_file(GPUPOOL_FAKE_VENDOR, folder_ / file);
  }
  void PutCudnn() {
    Put("libcudnn.so.9");
    for (const char* part :
         {"graph", "ops", "cnn", "adv", "heuristic", "engines_precompiled",
          "engines_runtime_compiled"}) {
      std::ofstream(folder_ / ("libcudnn_" + std::string(part) + ".so.9"));
    }
  }
  SurveyedLibrary Survey(size_t which) const {
    return SurveyLibrary(KnownLibraries().at(which), folder());
  }
  std::string folder() const { return folder_.string(); }

  static constexpr size_t kCudnn = 2;
  static constexpr size_t kNccl = 3;
  std::filesystem::path folder_;
};

TEST_F(LibrarySurveyTest, TellsVersionsAndPlaces) {
  for (const char* file : {"libcublasLt.so.13", "libnvrtc.so.13",
                           "libnccl.so.2", "libcupti.so.13"}) {
    Put(file);
  }
  PutCudnn();
  std::vector<SurveyedLibrary> all;
  for (const KnownLibrary& known : KnownLibraries()) {
    all.push_back(SurveyLibrary(known, folder(), all));
  }
  ASSERT_EQ(all.size(), 5u);
  const char* const versions[] = {"13.1.0", "13.0", "9.19.0", "2.28.3", ""};
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].state, LibraryState::kFound)
        << all[i].name << " " << all[i].detail;
    EXPECT_EQ(all[i].version, versions[i]);
    EXPECT_EQ(all[i].path, (folder_ / all[i].file).string());
    EXPECT_TRUE(all[i].passed_over.empty());
  }
}

// Uses names of libraries that the machine cannot have.
TEST_F(LibrarySurveyTest, AnotherMajorVersionIsNamed) {
  Put("libours.so.12.4");
  const SurveyedLibrary library =
      FindLibrary("Ours", "libours.so.13", folder());
  EXPECT_EQ(library.state, LibraryState::kOtherMajor);
  EXPECT_EQ(library.detail, (folder_ / "libours.so.12.4").string());
}

TEST_F(LibrarySurveyTest, OneThatIsNowhereIsMissing) {
  Put("libothers.so.13");
  const SurveyedLibrary library =
      FindLibrary("Ours", "libours.so.13", folder());
  EXPECT_EQ(library.state, LibraryState::kMissing);
  EXPECT_EQ(library.path, "");
}

TEST_F(LibrarySurveyTest, AFileThatIsNoLibraryIsUnusable) {
  std::ofstream(folder_ / "libours.so.13") << "text";
  const SurveyedLibrary library =
      FindLibrary("Ours", "libours.so.13", folder());
  EXPECT_EQ(library.state, LibraryState::kUnusable);
  EXPECT_EQ(library.path, (folder_ / "libours.so.13").string());
  EXPECT_NE(library.detail, "");
}

TEST_F(LibrarySurveyTest, FilesThatArePassedOverAreTold) {
  const auto text = folder_ / "text";
  const auto folder = folder_ / "folder";
  std::filesystem::create_directories(text);
  std::filesystem::create_directories(folder / "libours.so.13");
  std::ofstream(text / "libours.so.13") << "text";
  Put("libours.so.13");
  const SurveyedLibrary library = FindLibrary(
      "Ours", "libours.so.13",
      text.string() + ":" + folder.string() + ":" + folder_.string());
  EXPECT_EQ(library.state, LibraryState::kFound);
  EXPECT_EQ(library.path, (folder_ / "libours.so.13").string());
  ASSERT_EQ(library.passed_over.size(), 2u);
  EXPECT_EQ(library.passed_over[0],
            (text / "libours.so.13").string() + ": file too short");
  EXPECT_EQ(library.passed_over[1].find((folder / "libours.so.13").string()),
            0u);
}

TEST_F(LibrarySurveyTest, AFatalLibraryIsNotLoadedButFound) {
  std::ofstream(folder_ / "libnccl.so.2") << "text";
  const SurveyedLibrary library =
      FatalLibrary(KnownLibraries().at(kNccl), folder(), "it hangs");
  EXPECT_EQ(library.state, LibraryState::kFatal);
  EXPECT_EQ(library.path, (folder_ / "libnccl.so.2").string());
  EXPECT_EQ(library.detail, "it hangs");
}

TEST_F(LibrarySurveyTest, CudnnForAnotherCudaIsTold) {
  PutCudnn();
  ::setenv("FAKE_CUDNN_CUDA", "12080", 1);
  const SurveyedLibrary library = Survey(kCudnn);
  ::unsetenv("FAKE_CUDNN_CUDA");
  EXPECT_EQ(library.state, LibraryState::kOtherCuda);
  EXPECT_EQ(library.detail, "12");
}

TEST_F(LibrarySurveyTest, AnOldNcclIsTold) {
  Put("libnccl.so.2");
  ::setenv("FAKE_NCCL_VERSION", "21200", 1);
  const SurveyedLibrary library = Survey(kNccl);
  ::unsetenv("FAKE_NCCL_VERSION");
  EXPECT_EQ(library.state, LibraryState::kTooOld);
  EXPECT_EQ(library.version, "2.12.0");
  EXPECT_EQ(library.detail, "2.14.0");
}

}  // namespace
}  // namespace gpupool::engine::cuda
