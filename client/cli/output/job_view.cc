#include "client/cli/output/job_view.h"

#include <ostream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/output/array_view.h"
#include "client/cli/output/evaluation_view.h"
#include "client/cli/output/table.h"
#include "client/text/counted.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

std::string ProgressText(const v1::Job& job) {
  const v1::Progress& progress = job.progress();
  if (progress.total_steps() == 0) return "";
  const uint64_t percent = progress.step() * 100 / progress.total_steps();
  return absl::StrCat(progress.step(), "/", progress.total_steps(), " (",
                      percent, "%)");
}

std::string LossText(const v1::Job& job) {
  if (!job.progress().has_loss()) return "";
  return FormatLoss(job.progress().loss());
}

// Returns the loss scale, for jobs that scale their loss.
std::string LossScaleText(const v1::Job& job) {
  const v1::Progress& progress = job.progress();
  if (progress.loss_scale() == 0) return "";
  return absl::StrFormat("%g, %u steps skipped", progress.loss_scale(),
                         progress.skipped_steps());
}

// Returns how long steps waited for rows, from a second on.
std::string InputWaitText(const v1::Job& job) {
  const double seconds = job.progress().input_wait();
  if (!(seconds >= 1)) return "";
  return absl::StrFormat("%.1f s for the rows of batches", seconds);
}

// Returns "12", or "12 (7_3)" for a task.
std::string IdText(const v1::Job& job) {
  if (job.array_id() == 0) return absl::StrCat(job.id());
  return absl::StrCat(job.id(), " (", job.array_id(), "_", job.array_index(),
                      ")");
}

// Returns why the job waits, or why it failed.
std::string ReasonText(const v1::Job& job) {
  if (job.has_error()) return job.error().message();
  return job.waiting_reason();
}

// Prints "  name:      value" for each fact that has a value.
class Facts {
 public:
  explicit Facts(const Stream& stream) : stream_(stream) {}

  void Add(const char* name, const std::string& value,
           Style style = Style::kPlain) {
    if (value.empty()) return;
    *stream_.stream << absl::StrFormat("%-13s", absl::StrCat(name, ":"))
                    << Paint(stream_, style, value) << "\n";
  }

 private:
  const Stream& stream_;
};

std::string TimeText(bool has_time, const google::protobuf::Timestamp& time) {
  if (!has_time) return "";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", ToTime(time),
                          absl::LocalTimeZone());
}

void AddResults(const v1::Job& job, Facts& facts) {
  if (job.has_evaluation()) {
    facts.Add("held out", EvaluationText(job.evaluation()));
  }
  if (job.has_last_checkpoint()) {
    const v1::Checkpoint& checkpoint = job.last_checkpoint();
    facts.Add("checkpoint",
              absl::StrCat("step ", checkpoint.step(), ", ",
                           FormatBytes(checkpoint.bytes()), ", ",
                           checkpoint.manifest_sha256().substr(0, 12)));
  }
  if (job.best_checkpoints_size() > 0) {
    const v1::Checkpoint& best = job.best_checkpoints(0);
    facts.Add("best", absl::StrCat("step ", best.step(), ", held-out loss ",
                                   FormatLoss(best.held_out_loss())));
  }
  if (job.memory().measured_peak_bytes() > 0) {
    facts.Add("memory",
              absl::StrCat(FormatBytes(job.memory().measured_peak_bytes()),
                           " at its peak, ",
                           FormatBytes(job.memory().planned_peak_bytes()),
                           " planned"));
  } else if (job.plan().training().peak() > 0) {
    facts.Add("memory", absl::StrCat(FormatBytes(job.plan().training().peak()),
                                     " planned"));
  }
  if (job.has_error()) {
    facts.Add("error", job.error().message(), Style::kRed);
    facts.Add("hint", job.error().hint());
  }
}

}  // namespace

std::string DevicesText(const v1::Job& job) {
  constexpr int kListed = 4;
  if (job.devices_size() <= 1) return job.device();
  if (job.devices_size() <= kListed) return absl::StrJoin(job.devices(), ",");
  return absl::StrCat(job.device(), " and ", job.devices_size() - 1, " more");
}

std::string StateText(v1::JobState state) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(v1::JobState_Name(state)),
                             {{"_", " "}});
}

Style StateStyle(v1::JobState state) {
  switch (state) {
    case v1::SUCCEEDED:
      return Style::kGreen;
    case v1::FAILED:
      return Style::kRed;
    case v1::QUEUED:
    case v1::BACKING_OFF:
    case v1::CANCELLING:
      return Style::kYellow;
    default:
      return Style::kPlain;
  }
}

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int number = v1::QUEUED; number <= v1::CANCELLED; ++number) {
    names.push_back(absl::AsciiStrToLower(
        v1::JobState_Name(static_cast<v1::JobState>(number))));
  }
  return names;
}

v1::JobState ParseState(const std::string& name) {
  for (int number = v1::QUEUED; number <= v1::CANCELLED; ++number) {
    const auto state = static_cast<v1::JobState>(number);
    if (absl::EqualsIgnoreCase(name, v1::JobState_Name(state))) return state;
  }
  return v1::JOB_STATE_UNSPECIFIED;
}

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

std::string Age(bool has_time, const google::protobuf::Timestamp& time,
                absl::Time now) {
  if (!has_time) return "";
  return FormatSpan(std::max(now - ToTime(time), absl::ZeroDuration()));
}

std::string RunTime(const v1::Job& job, absl::Time now) {
  if (!job.has_start_time()) return "";
  const absl::Time end = job.has_end_time() ? ToTime(job.end_time()) : now;
  return FormatSpan(
      std::max(end - ToTime(job.start_time()), absl::ZeroDuration()));
}

void PrintJobs(const Stream& stream, const JobList& list, bool headers,
               absl::Time now) {
  Table table({{"ID", Table::kRight},
               {"NAME"},
               {"STATE"},
               {"DEVICE"},
               {"PROGRESS", Table::kRight},
               {"LOSS", Table::kRight},
               {"AGE", Table::kRight},
               {"REASON"}});
  auto array = list.arrays.begin();
  const auto is_full = [&] {
    return list.limit > 0 && table.rows() >= static_cast<size_t>(list.limit);
  };
  // Adds the arrays that are newer than `job`. 0 adds all that are left.
  const auto add_arrays = [&](uint64_t job) {
    for (; array != list.arrays.end() && array->id() > job && !is_full();
         ++array) {
      table.AddRow({absl::StrCat(array->id()), array->spec().name(),
                    CountsText(*array), "", "", "",
                    Age(true, array->create_time(), now), TasksText(*array)});
    }
  };
  for (const v1::Job& job : list.jobs.jobs()) {
    add_arrays(job.id());
    if (is_full()) break;
    table.AddRow({IdText(job), job.spec().name(), StateText(job.state()),
                  DevicesText(job), ProgressText(job), LossText(job),
                  Age(job.has_create_time(), job.create_time(), now),
                  ReasonText(job)});
  }
  add_arrays(0);
  table.Print(stream, headers);
}

// Returns "cuda:1, exclusive": where the job asks to run.
std::string AskedText(const v1::JobSpec& spec) {
  return absl::StrCat(spec.device(),
                      !spec.device().empty() && spec.exclusive() ? ", " : "",
                      spec.exclusive() ? "exclusive" : "");
}

void PrintJob(const Stream& stream, const v1::Job& job, absl::Time now) {
  Facts facts(stream);
  facts.Add("job", absl::StrCat(job.id(), " (", job.spec().name(), ")"),
            Style::kBold);
  if (job.array_id() > 0) {
    facts.Add("task", absl::StrCat("index ", job.array_index(), " of array ",
                                   job.array_id()));
  }
  facts.Add("state", StateText(job.state()), StateStyle(job.state()));
  facts.Add("waits", job.waiting_reason());
  if (job.devices_size() > 1) {
    facts.Add("devices", absl::StrJoin(job.devices(), ", "));
  } else {
    facts.Add("device", job.device());
  }
  facts.Add("asks for", AskedText(job.spec()));
  if (job.attempt() > 0) facts.Add("attempt", absl::StrCat(job.attempt()));
  facts.Add("tenant", job.spec().tenant());
  facts.Add("queue", job.spec().queue());
  if (job.spec().priority() != 0) {
    facts.Add("priority", absl::StrCat(job.spec().priority()));
  }
  if (job.held()) facts.Add("held", "yes");
  const v1::DataSpec& data = job.spec().data();
  facts.Add("dataset", data.has_synthetic() ? "synthetic" : data.dataset());
  facts.Add("validation", job.spec().data().validation());
  if (job.plan().parameters() > 0) {
    facts.Add("parameters", GroupDigits(job.plan().parameters()));
  }
  facts.Add("progress", ProgressText(job));
  facts.Add("loss", LossText(job));
  facts.Add("loss scale", LossScaleText(job));
  facts.Add("input wait", InputWaitText(job));
  AddResults(job, facts);
  facts.Add("created", TimeText(job.has_create_time(), job.create_time()));
  if (!job.has_start_time()) {
    facts.Add("expected to start", TimeText(job.has_predicted_start_time(),
                                            job.predicted_start_time()));
  }
  facts.Add("started", TimeText(job.has_start_time(), job.start_time()));
  facts.Add("ended", TimeText(job.has_end_time(), job.end_time()));
  facts.Add("run time", RunTime(job, now));
  facts.Add("request id", job.request_id());
  *stream.stream << ConfusionText(job.evaluation().confusion(), "");
}

}  // namespace gpupool::client
