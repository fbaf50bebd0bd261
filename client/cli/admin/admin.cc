// gpupool admin: running the server. `gpupool admin audit` reads files on this
// machine and asks no server.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "audit/audit_check.h"
#include "audit/audit_folder.h"
#include "client/backup_file.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

int Drain(Context& context, bool stop) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::DrainRequest request;
  request.set_stop(stop);
  const auto answer = (*client)->Drain(request);
  if (!answer.ok()) return context.Fail(answer.status());
  context.Print(*answer, [&] {
    *context.out().stream << "the server accepts no more jobs; "
                          << answer->running_jobs() << " running"
                          << (stop ? ", it ends after their checkpoints" : "")
                          << "\n";
  });
  return kOk;
}

int State(Context& context) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto state = (*client)->GetReconcileState({});
  if (!state.ok()) return context.Fail(state.status());
  context.Print(*state, [&] {
    Table table({{"JOB", Table::kRight},
                 {"ATTEMPT", Table::kRight},
                 {"DEVICE"},
                 {"IN STORE"},
                 {"ON WORKER"}});
    for (const auto& attempt : state->attempts()) {
      table.AddRow({absl::StrCat(attempt.job_id()),
                    absl::StrCat(attempt.attempt()), attempt.device(),
                    attempt.in_store() ? "yes" : "no",
                    attempt.on_worker() ? "yes" : "no"});
    }
    table.Print(context.out(), context.headers());
    context.Say(absl::StrCat(
        state->mismatches_total(),
        state->mismatches_total() == 1 ? " mismatch" : " mismatches",
        " since the server's start"));
  });
  return kOk;
}

int Check(Context& context) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto report = (*client)->CheckDatabase({});
  if (!report.ok()) return context.Fail(report.status());
  context.Print(*report, [&] {
    Table table({{"TABLE"}, {"ROWS", Table::kRight}});
    const std::map<std::string, uint64_t> rows(report->rows().begin(),
                                               report->rows().end());
    for (const auto& [name, count] : rows) {
      table.AddRow({name, absl::StrCat(count)});
    }
    table.Print(context.out(), context.headers());
  });
  for (const std::string& problem : report->problems()) context.Say(problem);
  if (report->problems().empty()) {
    context.Say("nothing is wrong");
    return kOk;
  }
  return context.Fail(absl::DataLossError(
      "the database is damaged: restore the state folder from a backup"));
}

int BackUp(Context& context, const std::string& file) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto bytes = BackUpDatabase(**client, file);
  if (!bytes.ok()) return context.Fail(bytes.status());
  context.Say(absl::StrCat(file, ": ", FormatBytes(*bytes)));
  return kOk;
}

struct AuditOptions {
  std::string folder = "gpupool-state";
  std::string digest;  // that a record must have; empty: none must
  uint64_t count = 20;
};

int VerifyAudit(Context& context, const AuditOptions& options) {
  const auto report =
      audit::CheckLog(audit::FolderOfLog(options.folder), options.digest);
  if (!report.ok()) return context.Fail(report.status());
  *context.out().stream << report->records << " records from sequence "
                        << report->first_sequence << " to "
                        << report->last_sequence << " in " << report->files
                        << " files: the chain is whole\nlast digest "
                        << report->last_digest << "\n";
  if (report->torn_bytes > 0) {
    context.Say(absl::StrCat(
        report->torn_file, " ends with ", report->torn_bytes,
        " bytes that are no whole record: the server writes them now, or was "
        "killed meanwhile and removes them at its next start"));
  }
  return kOk;
}

int TailAudit(Context& context, const AuditOptions& options) {
  const auto lines =
      audit::LastLines(audit::FolderOfLog(options.folder), options.count);
  if (!lines.ok()) return context.Fail(lines.status());
  for (const std::string& line : *lines) {
    *context.out().stream << line << "\n";
  }
  return kOk;
}

void AddFolder(CLI::App* verb, AuditOptions& options) {
  verb->add_option("DIR", options.folder,
                   "The state folder of a server, or the folder audit in it "
                   "(default: gpupool-state)");
}

void AddAudit(CLI::App& admin, Invocation& invocation) {
  CLI::App* audit =
      AddVerb(admin, "audit",
              "Check and show the audit log of a server on this machine, which "
              "need not run.",
              "  gpupool admin audit verify /var/lib/gpupool");
  audit->require_subcommand(1);
  auto options = std::make_shared<AuditOptions>();
  CLI::App* verify = AddVerb(
      *audit, "verify",
      "Check the chain of the records over all files, and name the first bad "
      "record by its file and line.",
      "  gpupool admin audit verify /var/lib/gpupool");
  AddFolder(verify, *options);
  verify
      ->add_option("--holds", options->digest,
                   "Digest that a record must have, as an earlier run showed "
                   "it")
      ->type_name("DIGEST");
  invocation.On(verify,
                [options](Context& c) { return VerifyAudit(c, *options); });
  CLI::App* tail = AddVerb(*audit, "tail", "Show the last records, as JSON.",
                           "  gpupool admin audit tail --lines 100");
  AddFolder(tail, *options);
  tail->add_option("-n,--lines", options->count,
                   "Number of records, 1 to 1000000 (default: 20)")
      ->type_name("COUNT")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1'000'000}));
  invocation.On(tail, [options](Context& c) { return TailAudit(c, *options); });
}

void AddDatabase(CLI::App& admin, Invocation& invocation) {
  invocation.On(AddVerb(admin, "check",
                        "Check the server's whole database while the server "
                        "runs, and report damage.",
                        "  gpupool admin check"),
                Check);
  auto file = std::make_shared<std::string>();
  CLI::App* backup = AddVerb(
      admin, "backup",
      "Copy the server's database, as of one moment, to a new file on this "
      "machine. Copy the server's blobs folder afterwards by other means.",
      "  gpupool admin backup gpupool-2026-05-01.db");
  backup->add_option("FILE", *file, "The file to write")->required();
  invocation.On(backup, [file](Context& c) { return BackUp(c, *file); });
}

}  // namespace

void AddAdmin(CLI::App& app, Invocation& invocation) {
  CLI::App* admin =
      AddVerb(app, "admin", "Drain, inspect and back up the server.",
              "  gpupool admin drain --stop");
  admin->require_subcommand(1);
  auto stop = std::make_shared<bool>(false);
  CLI::App* drain =
      AddVerb(*admin, "drain",
              "Stop the admission of jobs. With --stop the server ends as with "
              "SIGTERM: running steps finish, jobs checkpoint and resume after "
              "the next start.",
              "  gpupool admin drain --stop");
  drain->add_flag("--stop", *stop, "Also end the server");
  invocation.On(drain, [stop](Context& c) { return Drain(c, *stop); });
  invocation.On(AddVerb(*admin, "state",
                        "Compare the server's list of running attempts with "
                        "those of its workers.",
                        "  gpupool admin state -o json"),
                State);
  AddDatabase(*admin, invocation);
  AddAudit(*admin, invocation);
}

}  // namespace gpupool::client
