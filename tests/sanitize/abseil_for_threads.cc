// Tells ThreadSanitizer the order that absl::Mutex, CondVar, Notification and
// the reference counts of absl::Status impose.
//
// The system's Abseil is not built for ThreadSanitizer. So ThreadSanitizer sees
// none of its locks and would report every guarded field as a race. The linker
// redirects our calls to this file (--wrap, cmake/targets.cmake). Between `pre`
// and `post` accesses are ignored, because any thread that unlocks may evaluate
// conditions, as Abseil does.
#include <sanitizer/tsan_interface.h>

#include <cstdint>

#include "absl/base/config.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"

#define GPUPOOL_JOIN(a, b) a##b
#define GPUPOOL_REAL(symbol) GPUPOOL_JOIN(__real_, symbol)
#define GPUPOOL_WRAP(symbol) GPUPOOL_JOIN(__wrap_, symbol)

extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);

using absl::Condition;
using absl::CondVar;
using absl::Duration;
using absl::Mutex;
using absl::Notification;
using absl::Time;

namespace {

constexpr unsigned kReader = __tsan_mutex_read_lock;

// Marks a call that takes the lock.
class Locking {
 public:
  explicit Locking(Mutex* mutex, unsigned flags = 0)
      : mutex_(mutex), flags_(flags) {
    __tsan_mutex_pre_lock(mutex_, flags_);
  }
  ~Locking() { __tsan_mutex_post_lock(mutex_, flags_, 0); }

 private:
  Mutex* const mutex_;
  const unsigned flags_;
};

// Marks a call that gives the lock back.
class Unlocking {
 public:
  explicit Unlocking(Mutex* mutex, unsigned flags = 0)
      : mutex_(mutex), flags_(flags) {
    __tsan_mutex_pre_unlock(mutex_, flags_);
  }
  ~Unlocking() { __tsan_mutex_post_unlock(mutex_, flags_); }

 private:
  Mutex* const mutex_;
  const unsigned flags_;
};

// Marks a call that gives the lock back, waits, and takes it again.
class Waiting {
 public:
  explicit Waiting(Mutex* mutex) : locking_((Unlocking(mutex), mutex)) {}

 private:
  Locking locking_;
};

// Marks a call that deletes what others have read, after the last of them gave
// it up. ThreadSanitizer does not see the count that tells so.
class Deleting {
 public:
  Deleting() { AnnotateIgnoreWritesBegin(__FILE__, __LINE__); }
  ~Deleting() { AnnotateIgnoreWritesEnd(__FILE__, __LINE__); }
};

// Returns the flag that HasBeenNotified, which is inline, reads.
void* FlagOf(const Notification* notification) {
  return reinterpret_cast<char*>(const_cast<Notification*>(notification)) +
         sizeof(Mutex);
}

bool Notified(const Notification* notification, bool notified) {
  if (notified) __tsan_acquire(FlagOf(notification));
  return notified;
}

}  // namespace

// A wrapper that calls the function itself under a mark.
#define GPUPOOL_FORWARD(result, symbol, parameters, arguments, mark) \
  extern "C" result GPUPOOL_REAL(symbol) parameters;                 \
  extern "C" result GPUPOOL_WRAP(symbol) parameters {                \
    mark;                                                            \
    return GPUPOOL_REAL(symbol) arguments;                           \
  }
// A wrapper of a wait for a notification.
#define GPUPOOL_AWAIT(symbol, parameters, arguments)    \
  extern "C" bool GPUPOOL_REAL(symbol) parameters;      \
  extern "C" bool GPUPOOL_WRAP(symbol) parameters {     \
    return Notified(n, GPUPOOL_REAL(symbol) arguments); \
  }

// The symbols of Debian 13's and of Debian 12's Abseil. cmake/targets.cmake
// reads both lists here.
#if ABSL_LTS_RELEASE_VERSION >= 20240722
using absl::synchronization_internal::KernelTimeout;

GPUPOOL_FORWARD(void, _ZN4absl7debian75Mutex4LockEv, (Mutex * m), (m),
                Locking mark(m))
GPUPOOL_FORWARD(void, _ZN4absl7debian75Mutex6UnlockEv, (Mutex * m), (m),
                Unlocking mark(m))
GPUPOOL_FORWARD(void, _ZN4absl7debian75Mutex10ReaderLockEv, (Mutex * m), (m),
                Locking mark(m, kReader))
GPUPOOL_FORWARD(void, _ZN4absl7debian75Mutex12ReaderUnlockEv, (Mutex * m), (m),
                Unlocking mark(m, kReader))
GPUPOOL_FORWARD(
    bool,
    _ZN4absl7debian75Mutex11AwaitCommonERKNS0_9ConditionENS0_24synchronization_internal13KernelTimeoutE,
    (Mutex * m, const Condition& c, KernelTimeout t), (m, c, t),
    Waiting mark(m))
GPUPOOL_FORWARD(
    bool,
    _ZN4absl7debian77CondVar10WaitCommonEPNS0_5MutexENS0_24synchronization_internal13KernelTimeoutE,
    (CondVar * v, Mutex* m, KernelTimeout t), (v, m, t), Waiting mark(m))
GPUPOOL_FORWARD(void, _ZN4absl7debian75Mutex4DtorEv, (Mutex * m), (m),
                __tsan_mutex_destroy(m, 0))
GPUPOOL_FORWARD(void, _ZNK4absl7debian715status_internal9StatusRep5UnrefEv,
                (const absl::status_internal::StatusRep* rep), (rep),
                Deleting mark)
GPUPOOL_FORWARD(void, _ZN4absl7debian712Notification6NotifyEv,
                (Notification * n), (n), __tsan_release(FlagOf(n)))
extern "C" void __real__ZNK4absl7debian712Notification19WaitForNotificationEv(
    const Notification* n);
extern "C" void __wrap__ZNK4absl7debian712Notification19WaitForNotificationEv(
    const Notification* n) {
  __real__ZNK4absl7debian712Notification19WaitForNotificationEv(n);
  Notified(n, true);
}
GPUPOOL_AWAIT(
    _ZNK4absl7debian712Notification30WaitForNotificationWithTimeoutENS0_8DurationE,
    (const Notification* n, Duration d), (n, d))
GPUPOOL_AWAIT(
    _ZNK4absl7debian712Notification31WaitForNotificationWithDeadlineENS0_4TimeE,
    (const Notification* n, Time t), (n, t))
#else
GPUPOOL_FORWARD(void, _ZN4absl7debian35Mutex4LockEv, (Mutex * m), (m),
                Locking mark(m))
GPUPOOL_FORWARD(void, _ZN4absl7debian35Mutex6UnlockEv, (Mutex * m), (m),
                Unlocking mark(m))
GPUPOOL_FORWARD(void, _ZN4absl7debian35Mutex10ReaderLockEv, (Mutex * m), (m),
                Locking mark(m, kReader))
GPUPOOL_FORWARD(void, _ZN4absl7debian35Mutex12ReaderUnlockEv, (Mutex * m), (m),
                Unlocking mark(m, kReader))
GPUPOOL_FORWARD(void, _ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE,
                (Mutex * m, const Condition& c), (m, c), Waiting mark(m))
GPUPOOL_FORWARD(
    bool,
    _ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE,
    (Mutex * m, const Condition& c, Duration d), (m, c, d), Waiting mark(m))
GPUPOOL_FORWARD(
    bool, _ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE,
    (Mutex * m, const Condition& c, Time t), (m, c, t), Waiting mark(m))
GPUPOOL_FORWARD(void, _ZN4absl7debian37CondVar4WaitEPNS0_5MutexE,
                (CondVar * v, Mutex* m), (v, m), Waiting mark(m))
GPUPOOL_FORWARD(
    bool, _ZN4absl7debian37CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE,
    (CondVar * v, Mutex* m, Duration d), (v, m, d), Waiting mark(m))
GPUPOOL_FORWARD(
    bool, _ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE,
    (CondVar * v, Mutex* m, Time t), (v, m, t), Waiting mark(m))
GPUPOOL_FORWARD(void, _ZN4absl7debian35MutexD1Ev, (Mutex * m), (m),
                __tsan_mutex_destroy(m, 0))
GPUPOOL_FORWARD(void, _ZN4absl7debian36Status15UnrefNonInlinedEm,
                (uintptr_t rep), (rep), Deleting mark)
GPUPOOL_FORWARD(void, _ZN4absl7debian312Notification6NotifyEv,
                (Notification * n), (n), __tsan_release(FlagOf(n)))
extern "C" void __real__ZNK4absl7debian312Notification19WaitForNotificationEv(
    const Notification* n);
extern "C" void __wrap__ZNK4absl7debian312Notification19WaitForNotificationEv(
    const Notification* n) {
  __real__ZNK4absl7debian312Notification19WaitForNotificationEv(n);
  Notified(n, true);
}
GPUPOOL_AWAIT(
    _ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE,
    (const Notification* n, Duration d), (n, d))
GPUPOOL_AWAIT(
    _ZNK4absl7debian312Notification31WaitForNotificationWithDeadlineENS0_4TimeE,
    (const Notification* n, Time t), (n, t))
#endif
