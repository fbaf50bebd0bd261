#include "server/worker/doctor/examine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ExamineOptions Options() {
  ExamineOptions options;
  options.cuda_lib_dir = GPUPOOL_FAKE_NVML_DIR;
  options.module_dirs = {"/nowhere", GPUPOOL_STANDIN_DIR};
  options.state_dir = ::testing::TempDir();
  return options;
}

// Uses the stand-in of libcuda.so.1, which LD_LIBRARY_PATH finds. CTest sets
// it.
class ExamineTest : public ::testing::Test {
 protected:
  void TearDown() override {
    for (const char* name : {"FAKE_CUDA_COUNT", "FAKE_CUDA_CRASH",
                             "FAKE_CUDA_HANG", "FAKE_CUDA_INIT"}) {
      ::unsetenv(name);
    }
  }
};

TEST_F(ExamineTest, EveryPartIsAskedForInAProcessOfItsOwn) {
  ::setenv("FAKE_CUDA_COUNT", "2", 1);
  const DoctorFacts facts = Examine(Options());
  ASSERT_TRUE(facts.driver_asked.ok()) << facts.driver_asked;
  ASSERT_EQ(facts.driver.gpus.size(), 2u) << facts.driver.load_error;
  EXPECT_EQ(facts.driver.gpus[1].uuid,
            "GPU-00000000-0000-0000-0000-000000000001");
  EXPECT_THAT(facts.driver.gpus[1].peers, ElementsAre(true, true));
  ASSERT_TRUE(facts.nvml_asked.ok());
  EXPECT_EQ(facts.nvml.driver_version, "580.0.1");
  EXPECT_EQ(facts.nvml.gpus[1].uuid, facts.driver.gpus[1].uuid);
  EXPECT_EQ(facts.libraries.size(), 5u);
  ASSERT_TRUE(facts.module_asked.ok());
  EXPECT_THAT(facts.module.path, HasSubstr("libgpupool_cuda.so"));
  EXPECT_EQ(facts.module.load_error, "");
  EXPECT_THAT(facts.module.architectures.machine_code, ElementsAre(90));
  EXPECT_THAT(facts.module.architectures.ptx, ElementsAre(90));
  EXPECT_THAT(facts.links, ElementsAre("SYS"));
  EXPECT_EQ(facts.state.path, ::testing::TempDir());
}

TEST_F(ExamineTest, ADriverThatCrashesEndsItsOwnProcessOnly) {
  ::setenv("FAKE_CUDA_CRASH", "1", 1);
  const DoctorFacts facts = Examine(Options());
  EXPECT_TRUE(absl::IsAborted(facts.driver_asked)) << facts.driver_asked;
  EXPECT_TRUE(facts.nvml_asked.ok());
}

TEST_F(ExamineTest, ADriverThatHangsIsAskedOnce) {
  ::setenv("FAKE_CUDA_HANG", "1", 1);
  ExamineOptions options = Options();
  options.limit = absl::Milliseconds(100);
  const DoctorFacts facts = Examine(options);
  EXPECT_TRUE(absl::IsDeadlineExceeded(facts.driver_asked));
  EXPECT_TRUE(absl::IsDeadlineExceeded(facts.nvml_asked));
  EXPECT_TRUE(absl::IsDeadlineExceeded(facts.module_asked));
}

TEST_F(ExamineTest, ALibraryThatIsFatalIsNamedAndTheOthersAreTold) {
  using engine::cuda::LibraryState;
  std::string folder = ::testing::TempDir() + "/examineXXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  for (const char* file : {"/libnccl.so.2", "/libcupti.so.13"}) {
    std::filesystem::copy_file(GPUPOOL_FAKE_VENDOR, folder + file);
  }
  ::setenv("FAKE_NCCL_SIGNAL", "7", 1);
  ExamineOptions options = Options();
  options.cuda_lib_dir = folder + ":/nowhere";
  const DoctorFacts facts = Examine(options);
  ::unsetenv("FAKE_NCCL_SIGNAL");
  std::filesystem::remove_all(folder);
  ASSERT_EQ(facts.libraries.size(), 5u);
  EXPECT_EQ(facts.libraries[3].state, LibraryState::kFatal);
  EXPECT_EQ(facts.libraries[3].path, folder + "/libnccl.so.2");
  EXPECT_EQ(facts.libraries[3].detail, "killed by signal 7 (Bus error)");
  EXPECT_EQ(facts.libraries[4].state, LibraryState::kFound);
  EXPECT_THAT(facts.folder_errors, ElementsAre("/nowhere is not there"));
}

TEST_F(ExamineTest, ALibraryThatStopsItsReaderIsNamed) {
  std::string folder = ::testing::TempDir() + "/examineXXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  ASSERT_EQ(::mkfifo((folder + "/libnccl.so.2").c_str(), 0600), 0);
  ExamineOptions options = Options();
  options.cuda_lib_dir = folder;
  options.limit = absl::Seconds(1);
  const DoctorFacts facts = Examine(options);
  std::filesystem::remove_all(folder);
  if (!facts.driver_asked.ok()) GTEST_SKIP() << "this machine is too busy";
  ASSERT_EQ(facts.libraries.size(), 5u);
  EXPECT_EQ(facts.libraries[3].path, folder + "/libnccl.so.2");
  EXPECT_EQ(facts.libraries[3].detail, "no answer in 1s");
}

TEST_F(ExamineTest, LibrariesAreNotLoadedWhereNoGpuWorks) {
  ::setenv("FAKE_CUDA_INIT", "999", 1);
  const DoctorFacts facts = Examine(Options());
  EXPECT_EQ(facts.driver.code, 999);
  EXPECT_EQ(facts.driver.call, "cuInit");
  EXPECT_THAT(facts.libraries, IsEmpty());
}

TEST_F(ExamineTest, AMissingModuleNamesItsFolders) {
  ExamineOptions options = Options();
  options.module_dirs = {"/nowhere", "/no/where"};
  const DoctorFacts facts = Examine(options);
  EXPECT_EQ(facts.module.path, "");
  EXPECT_EQ(facts.module.folders, "/nowhere or /no/where");
}

TEST_F(ExamineTest, WhoHoldsMemoryIsNamed) {
  std::string root = ::testing::TempDir() + "/examineXXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  std::filesystem::create_directories(root + "/proc/42");
  std::ofstream(root + "/proc/42/comm") << "python3\n";
  ExamineOptions options = Options();
  options.root = root;
  const DoctorFacts facts = Examine(options);
  std::filesystem::remove_all(root);
  ASSERT_EQ(facts.process_names.size(), 1u);
  EXPECT_EQ(facts.process_names.at(42), "python3");
}

TEST_F(ExamineTest, NothingOfAGpuIsTouchedWhereNobodyAsks) {
  ::setenv("FAKE_CUDA_CRASH", "1", 1);
  ExamineOptions options = Options();
  options.gpus = false;
  const DoctorFacts facts = Examine(options);
  EXPECT_FALSE(facts.gpus_asked);
  EXPECT_TRUE(facts.driver_asked.ok());
  EXPECT_GE(facts.host.cores, 1u);
}

}  // namespace
}  // namespace gpupool::server
