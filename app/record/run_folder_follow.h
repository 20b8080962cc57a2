/* run_folder_follow.h - holds a run folder while a run writes into it, whatever others do
 * to its files or its name.
 * Flow:  run_folder -> [run_folder_follow] -> the folder, the logs.
 * Owns:  nothing; the folder's descriptor and logs are the struct's. */
#ifndef APP_RECORD_RUN_FOLDER_FOLLOW_H
#define APP_RECORD_RUN_FOLDER_FOLLOW_H

#include "app/record/run_folder.h"

/* Opens the folder and locks it: the folder itself, since a lock on a file in it is lost
 * with that file. STATUS_USAGE when another program has it. */
enum status run_folder_lock(struct run_folder *folder);

/* Before a line is appended to *log, "NAME" in the folder: where that name has gone, or
 * leads to another file, *log is opened anew, and a warning says so. */
void run_folder_follow_log(struct run_folder *folder, const char *name, FILE **log);

#endif
