#include "client/files/event_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/client/testing/event_reader.h"

namespace gpupool::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class EventFileTest : public ::testing::Test {
 protected:
  ~EventFileTest() override { std::filesystem::remove_all(root_); }

  EventFile Make(uint64_t job = 7) {
    absl::StatusOr<EventFile> file = EventFile::Create(folder_, job);
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  absl::Status Refusal(const std::string& folder) {
    const auto file = EventFile::Create(folder, 7);
    EXPECT_FALSE(file.ok());
    return file.status();
  }

  const std::string root_ =
      absl::StrCat(::testing::TempDir(), "event_file_", ::getpid());
  const std::string folder_ = root_ + "/runs/a";
};

TEST_F(EventFileTest, AFileHasTheNameThatTensorBoardLooksFor) {
  const int64_t before = absl::ToUnixSeconds(absl::Now());
  const EventFile file = Make();
  const std::string name =
      std::filesystem::path(file.path()).filename().string();
  EXPECT_THAT(name, MatchesRegex("events\\.out\\.tfevents\\.[0-9]+\\..+\\.7"));
  const std::string prefix = "events.out.tfevents.";
  EXPECT_GE(std::stoll(name.substr(prefix.size())), before);
  EXPECT_EQ(file.path(), folder_ + "/" + name);
}

TEST_F(EventFileTest, ReadersSeeEveryStepAtOnce) {
  EventFile file = Make();
  const auto read = [&] { return ReadEvents(ReadEventBytes(file.path())); };
  ASSERT_EQ(read().size(), 1u);
  EXPECT_EQ(read()[0].version, "brain.Event:2");
  for (uint64_t step = 1; step <= 3; ++step) {
    ASSERT_TRUE(
        file.Append({absl::Now(), step, false, {{"loss/training", 0.5}}}).ok());
    ASSERT_EQ(read().size(), 2 + step);
    EXPECT_EQ(read().back().step, static_cast<int64_t>(step));
    EXPECT_EQ(read().back().values.at("loss/training"), 0.5f);
  }
  // The first numbers replace those of earlier files.
  EXPECT_TRUE(read()[1].starts_session);
  EXPECT_EQ(read()[1].step, 1);
}

TEST_F(EventFileTest, ARewindIsWrittenBeforeItsNumbers) {
  EventFile file = Make();
  ASSERT_TRUE(file.Append({absl::Now(), 9, false, {{"a", 1}}}).ok());
  ASSERT_TRUE(file.Append({absl::Now(), 4, true, {{"a", 2}}}).ok());
  const auto events = ReadEvents(ReadEventBytes(file.path()));
  ASSERT_EQ(events.size(), 5u);
  EXPECT_TRUE(events[3].starts_session);
  EXPECT_EQ(events[3].step, 4);
  EXPECT_EQ(events[4].values.at("a"), 2);
}

TEST_F(EventFileTest, ALaterFileOfTheJobHasALaterName) {
  const EventFile first = Make();
  const EventFile second = Make();
  EXPECT_LT(first.path(), second.path());
}

TEST_F(EventFileTest, AFolderOfAnotherRunIsRefused) {
  const EventFile first = Make(17);
  const absl::Status refusal = Refusal(folder_);
  EXPECT_EQ(refusal.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refusal.message()),
              AllOf(HasSubstr(".17"), HasSubstr("one run"),
                    HasSubstr(folder_ + "/job-7")));
}

TEST_F(EventFileTest, FilesThatHoldNoEventsDoNotMatter) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/notes.txt") << "x";
  Make();
}

TEST_F(EventFileTest, AFolderThatCannotBeMadeIsRefusedWithItsName) {
  std::filesystem::create_directories(folder_);
  const std::string file = folder_ + "/file";
  std::ofstream(file) << "x";
  for (const std::string& path : {file, file + "/below"}) {
    EXPECT_THAT(
        std::string(Refusal(path).message()),
        AllOf(HasSubstr("the folder " + path + ":"), HasSubstr("directory"),
              HasSubstr("name a folder that you may write")));
  }
}

TEST_F(EventFileTest, AnEventThatDoesNotFitIsAnErrorWithThePath) {
  EventFile file = Make();
  const auto size = std::filesystem::file_size(file.path());
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full = {size, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
  const absl::Status status = file.Append({absl::Now(), 1, false, {{"a", 1}}});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(file.path()));
}

}  // namespace
}  // namespace gpupool::client
