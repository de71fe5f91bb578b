/* Reads files of /proc. Never decides what they mean for anybody's memory. */
#include "plugins/common/proc.h"

#include "abi/base/system_text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void survey_line(struct mbr_proc_survey *survey, const char *line)
{
    unsigned long long start, end, offset, inode;
    char access[8];
    if (sscanf(line, "%llx-%llx %7s %llx %*x:%*x %llu", &start, &end, access, &offset, &inode) != 5)
        return;
    uint64_t low = start > survey->start ? start : survey->start;
    uint64_t high = end < survey->end ? end : survey->end;
    if (low >= high)
        return;
    survey->covered_bytes += high - low;
    survey->all_reserved = survey->all_reserved && inode == 0 && strcmp(access, "---p") == 0;
    survey->all_file = survey->all_file && inode == survey->inode && access[3] == 's';
}

/* Reads /proc/self/maps line by line. */
static int survey_maps(struct mbr_proc_survey *survey)
{
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return errno;
    char text[8192]; /* a line has at most PATH_MAX and about 80 bytes */
    size_t filled = 0;
    ssize_t got;
    while ((got = read(file, text + filled, sizeof(text) - 1 - filled)) > 0) {
        filled += (size_t)got;
        text[filled] = 0;
        char *line = text;
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = 0;
            survey_line(survey, line);
            survey->mapping_count++;
        }
        filled -= (size_t)(line - text);
        memmove(text, line, filled);
    }
    int code = got < 0 ? errno : 0;
    close(file);
    return code;
}

int mbr_proc_survey(uint64_t start, uint64_t end, uint64_t inode, struct mbr_proc_survey *survey)
{
    struct mbr_proc_survey found = {
        .start = start, .end = end, .inode = inode, .all_reserved = true, .all_file = true};
    char text[32];
    int code = mbr_system_text_read("/proc/sys/vm/max_map_count", text, sizeof(text));
    if (code == 0)
        code = survey_maps(&found);
    if (code != 0)
        return code;
    found.mapping_count_limit = strtoull(text, NULL, 10);
    *survey = found;
    return 0;
}
