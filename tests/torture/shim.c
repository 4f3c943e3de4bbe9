/* Stands between a program and the C library: counts the calls that change what is under one folder, writes each
 * down, and at one of them kills the process or lets the call fail.
 *
 * Loaded with LD_PRELOAD. Armed by the environment at the start (TORTURE_ROOT, TORTURE_LOG, TORTURE_AT, TORTURE_HOW,
 * TORTURE_DATA) or by torture_arm() later. The real calls are made with syscall(), so nothing is looked up.
 * A line of the log: number, kind, how it was disturbed ("-" for not at all), inode, offset, length, result, number of
 * bytes of data that follow the line, path, second path; parted by tabs.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct call {
    const char *kind;
    char path[PATH_MAX], other[PATH_MAX]; /* `other` is where a rename or a link leads */
    int fd;                               /* -1 for calls that name a path */
    const void *data;                     /* what a write writes */
    long at, size, arguments[5], number;
};

static char root[PATH_MAX], how[16];
static int log_fd = -1, with_data;
static long count, target;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

long torture_count(void) { return count; }

void torture_arm(const char *folder, const char *log, long at, const char *what, int data)
{
    int fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    log_fd = fcntl(fd, F_DUPFD_CLOEXEC, 700); /* out of the way of what counts its descriptors */
    close(fd);
    snprintf(root, sizeof root, "%s", folder);
    snprintf(how, sizeof how, "%s", what);
    target = at, with_data = data, count = 0;
}

__attribute__((constructor)) static void arm_from_environment(void)
{
    const char *folder = getenv("TORTURE_ROOT"), *log = getenv("TORTURE_LOG"), *at = getenv("TORTURE_AT");
    const char *what = getenv("TORTURE_HOW");
    if (folder && log)
        torture_arm(folder, log, at ? atol(at) : 0, what ? what : "-", getenv("TORTURE_DATA") != NULL);
    unsetenv("LD_PRELOAD"); /* what the program runs is not ours */
    unsetenv("TORTURE_ROOT");
}

/* ---- where a call leads */

static void place_of(char *place, int folder, const char *path)
{
    char link[64];
    place[0] = 0;
    if (path && path[0] == '/') {
        snprintf(place, PATH_MAX, "%s", path);
        return;
    }
    if (folder == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/self/cwd");
    else
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, place, PATH_MAX - 1);
    place[length < 0 ? 0 : length] = 0;
    if (path && length > 0)
        snprintf(place + length, PATH_MAX - length, "/%s", path);
}

static int is_ours(const char *place)
{
    size_t length = strlen(root), whole = strlen(place);
    if (log_fd < 0 || strncmp(place, root, length) || (place[length] != '/' && place[length]))
        return 0;
    return whole < 4 || strcmp(place + whole - 4, "-shm"); /* a map in memory, made anew at each start */
}

static int exists(const char *place)
{
    struct stat found;
    return syscall(SYS_newfstatat, AT_FDCWD, place, &found, AT_SYMLINK_NOFOLLOW) == 0;
}

static unsigned long inode_of(const struct call *c)
{
    struct stat found;
    long failed = c->fd >= 0 ? syscall(SYS_fstat, c->fd, &found)
                             : syscall(SYS_newfstatat, AT_FDCWD, c->path, &found, AT_SYMLINK_NOFOLLOW);
    return failed ? 0 : found.st_ino;
}

/* ---- the one way that every call goes */

static void note(const struct call *c, const char *disturbed, unsigned long inode, long result)
{
    char line[2 * PATH_MAX + 200];
    long bytes = with_data && c->data && result > 0 ? result : 0;
    int length = snprintf(line, sizeof line, "%ld\t%s\t%s\t%lu\t%ld\t%ld\t%ld\t%ld\t%s\t%s\n", count, c->kind, disturbed,
                          inode, c->at, c->size, result, bytes, c->path, c->other);
    struct iovec parts[2] = {{line, length}, {(void *)c->data, bytes}};
    syscall(SYS_writev, log_fd, parts, 2);
}

static long make(struct call *c)
{
    long *a = c->arguments;
    return syscall(c->number, a[0], a[1], a[2], a[3], a[4]);
}

static void die(void)
{
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;)
        pause();
}

static long perform(struct call *c)
{
    if (!is_ours(c->path) && !is_ours(c->other))
        return make(c);
    pthread_mutex_lock(&order);
    count++;
    int persists = !strcmp(how, "full");
    const char *disturbed = target && (count == target || (persists && count > target)) ? how : "-";
    unsigned long before = inode_of(c);
    long result, reason = !strcmp(disturbed, "enospc") || !strcmp(disturbed, "full") ? ENOSPC
                          : !strcmp(disturbed, "eio")                                ? EIO
                                                                                     : 0;
    if (!strcmp(disturbed, "before")) {
        note(c, disturbed, before, -1);
        die();
    }
    if (reason) {
        note(c, disturbed, before, -1);
        pthread_mutex_unlock(&order);
        errno = reason;
        return -1;
    }
    if (c->data && c->size > 1 && (!strcmp(disturbed, "half") || !strcmp(disturbed, "short")))
        c->arguments[2] = c->size / 2;
    if (c->data && c->at < 0) { /* a write where the file is, or at its end */
        struct stat found;
        int appends = fcntl(c->fd, F_GETFL) & O_APPEND;
        c->at = appends && !syscall(SYS_fstat, c->fd, &found) ? found.st_size : lseek(c->fd, 0, SEEK_CUR);
    }
    result = make(c);
    int saved = errno;
    note(c, disturbed, before ? before : inode_of(c), result);
    if (!strcmp(disturbed, "after") || !strcmp(disturbed, "half"))
        die();
    pthread_mutex_unlock(&order);
    errno = saved;
    return result;
}

static long on_file(const char *kind, long number, int fd, long second, long third, long fourth)
{
    struct call c = {.kind = kind, .fd = fd, .number = number, .arguments = {fd, second, third, fourth}};
    if (!strcmp(kind, "truncate"))
        c.size = second;
    place_of(c.path, fd, NULL);
    return perform(&c);
}

static long on_path(const char *kind, long number, int folder, const char *path, long second, long third)
{
    struct call c = {.kind = kind, .fd = -1, .number = number, .arguments = {folder, (long)path, second, third}};
    place_of(c.path, folder, path);
    if (exists(c.path) == !strcmp(kind, "mkdir")) /* nothing will change */
        return make(&c);
    return perform(&c);
}

static long on_two(const char *kind, long number, int from, const char *old, int to, const char *new, long flags)
{
    struct call c = {.kind = kind, .fd = -1, .number = number, .arguments = {from, (long)old, to, (long)new, flags}};
    place_of(c.path, from, old);
    place_of(c.other, to, new);
    return exists(c.path) ? perform(&c) : make(&c);
}

static long write_at(long number, int fd, const void *data, size_t size, long at)
{
    struct call c = {.kind = "write", .fd = fd, .data = data, .size = size, .at = at, .number = number,
                     .arguments = {fd, (long)data, size, at}};
    place_of(c.path, fd, NULL);
    return perform(&c);
}

static long write_parts(long number, int fd, const struct iovec *parts, int many, long at)
{
    size_t size = 0, done = 0;
    for (int i = 0; i < many; i++)
        size += parts[i].iov_len;
    char *whole = malloc(size + 1);
    for (int i = 0; i < many; done += parts[i++].iov_len)
        memcpy(whole + done, parts[i].iov_base, parts[i].iov_len);
    long result = write_at(number, fd, whole, size, at);
    free(whole);
    return result;
}

static long open_at(int folder, const char *path, int flags, mode_t mode)
{
    struct call c = {.fd = -1, .number = SYS_openat, .arguments = {folder, (long)path, flags, mode}};
    place_of(c.path, folder, path);
    int there = exists(c.path);
    if (there ? !(flags & O_TRUNC) || (flags & O_EXCL) : !(flags & O_CREAT))
        return make(&c);
    c.kind = there ? "truncate" : "create";
    return perform(&c);
}

/* ---- the C library's names */

#define MODE(last) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, last); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }
#define OPENS(name) int name(const char *p, int flags, ...) { MODE(flags) return open_at(AT_FDCWD, p, flags, mode); }
#define OPENS_AT(name) int name(int d, const char *p, int flags, ...) { MODE(flags) return open_at(d, p, flags, mode); }
#define CREATES(name) int name(const char *p, mode_t m) { return open_at(AT_FDCWD, p, O_CREAT | O_WRONLY | O_TRUNC, m); }
#define PWRITES(name) ssize_t name(int f, const void *b, size_t n, off_t o) { return write_at(SYS_pwrite64, f, b, n, o); }
#define PWRITEVS(name) \
    ssize_t name(int f, const struct iovec *v, int n, off_t o) { return write_parts(SYS_pwrite64, f, v, n, o); }
#define TRUNCATES(name) int name(int f, off_t n) { return on_file("truncate", SYS_ftruncate, f, n, 0, 0); }
#define ALLOCATES(name) \
    int name(int f, int m, off_t o, off_t n) { return on_file("allocate", SYS_fallocate, f, m, o, n); }
#define POSIX_ALLOCATES(name) \
    int name(int f, off_t o, off_t n) { return on_file("allocate", SYS_fallocate, f, 0, o, n) ? errno : 0; }
/* Copies inside the kernel are refused where they lead to our folder; every caller then writes by itself. */
#define REFUSES(place_fd, real) \
    char place[PATH_MAX]; \
    place_of(place, place_fd, NULL); \
    if (is_ours(place)) { errno = EINVAL; return -1; } \
    return real;
#define SENDS(name) \
    ssize_t name(int t, int f, off_t *o, size_t n) { REFUSES(t, syscall(SYS_sendfile, t, f, o, n)) }

OPENS(open)
OPENS(open64)
OPENS_AT(openat)
OPENS_AT(openat64)
CREATES(creat)
CREATES(creat64)
ssize_t write(int f, const void *b, size_t n) { return write_at(SYS_write, f, b, n, -1); }
ssize_t writev(int f, const struct iovec *v, int n) { return write_parts(SYS_write, f, v, n, -1); }
PWRITES(pwrite)
PWRITES(pwrite64)
PWRITEVS(pwritev)
PWRITEVS(pwritev64)
int fsync(int f) { return on_file("sync", SYS_fsync, f, 0, 0, 0); }
int fdatasync(int f) { return on_file("sync", SYS_fdatasync, f, 0, 0, 0); }
TRUNCATES(ftruncate)
TRUNCATES(ftruncate64)
ALLOCATES(fallocate)
ALLOCATES(fallocate64)
POSIX_ALLOCATES(posix_fallocate)
POSIX_ALLOCATES(posix_fallocate64)
SENDS(sendfile)
SENDS(sendfile64)
ssize_t copy_file_range(int f, off_t *o, int t, off_t *p, size_t n, unsigned flags)
{
    REFUSES(t, syscall(SYS_copy_file_range, f, o, t, p, n, flags))
}
int rename(const char *p, const char *q) { return on_two("rename", SYS_renameat2, AT_FDCWD, p, AT_FDCWD, q, 0); }
int renameat(int d, const char *p, int e, const char *q) { return on_two("rename", SYS_renameat2, d, p, e, q, 0); }
int renameat2(int d, const char *p, int e, const char *q, unsigned f)
{
    return on_two("rename", SYS_renameat2, d, p, e, q, f);
}
int link(const char *p, const char *q) { return on_two("link", SYS_linkat, AT_FDCWD, p, AT_FDCWD, q, 0); }
int linkat(int d, const char *p, int e, const char *q, int f) { return on_two("link", SYS_linkat, d, p, e, q, f); }
int unlink(const char *p) { return on_path("unlink", SYS_unlinkat, AT_FDCWD, p, 0, 0); }
int unlinkat(int d, const char *p, int f) { return on_path(f & AT_REMOVEDIR ? "rmdir" : "unlink", SYS_unlinkat, d, p, f, 0); }
int rmdir(const char *p) { return on_path("rmdir", SYS_unlinkat, AT_FDCWD, p, AT_REMOVEDIR, 0); }
int mkdir(const char *p, mode_t m) { return on_path("mkdir", SYS_mkdirat, AT_FDCWD, p, m, 0); }
int mkdirat(int d, const char *p, mode_t m) { return on_path("mkdir", SYS_mkdirat, d, p, m, 0); }
