//! Changes of the files on disk. Each leaves a manifest whose files are complete, whenever the power fails.

use std::io;
use std::path::{Path, PathBuf};

use super::load::{AofError, AofFiles};
use super::manifest::{Entry, Manifest};
use super::writer::OpenFile;
use crate::config::Settings;
use crate::log::{self, Logger};
use crate::persist::disk::Disk;

type Done<T> = Result<T, AofError>;

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AofError + use<> {
    let path = path.to_owned();
    move |source| AofError::File { what, path, source }
}

impl AofFiles {
    /// Creates the folder, unless it exists.
    pub(super) fn create_folder(&self, disk: &Disk) -> Done<()> {
        let what = "Can't open or create append-only dir";
        disk.create_folder(&self.folder)
            .map_err(failed(what, &self.folder))?;
        let parent = self.folder.parent().unwrap_or(Path::new("."));
        disk.sync_folder(parent)
            .map_err(failed("Fail to fsync AOF directory", parent))
    }

    /// Replaces the manifest on disk, and then this one.
    ///
    /// # Errors
    /// A file operation has failed. Then the old manifest remains here; on disk there is the old one or the new one.
    fn replace(&mut self, disk: &Disk, manifest: Manifest) -> Done<()> {
        let mut name = std::ffi::OsString::from("temp-");
        name.push(self.path.file_name().unwrap_or_default());
        let temporary = self.path.with_file_name(name);
        let mut output = disk
            .create(&temporary)
            .map_err(failed("Can't open the AOF manifest file", &temporary))?;
        io::Write::write_all(&mut output, manifest.to_string().as_bytes()).map_err(failed(
            "Error trying to write the temporary AOF manifest file",
            &temporary,
        ))?;
        output
            .sync()
            .map_err(failed("Fail to fsync the temp AOF file", &temporary))?;
        disk.rename(&temporary, &self.path).map_err(failed(
            "Error trying to rename the temporary AOF manifest file",
            &temporary,
        ))?;
        self.sync_folder(disk)?;
        self.manifest = manifest;
        Ok(())
    }

    fn sync_folder(&self, disk: &Disk) -> Done<()> {
        let what = "Fail to fsync AOF directory";
        disk.sync_folder(&self.folder)
            .map_err(failed(what, &self.folder))
    }

    /// Moves the single file of an older version into the folder. Every state in between is one that [`AofFiles::find`] knows.
    pub(super) fn migrate(&mut self, disk: &Disk, logger: &Logger) -> Done<()> {
        let (Some(old), Some(base)) = (self.old.clone(), self.manifest.base.clone()) else {
            return Ok(());
        };
        self.create_folder(disk)?;
        self.replace(disk, self.manifest.clone())?;
        let what = "Error trying to move the old AOF file into the dir:";
        disk.rename(&old, &self.folder.join(&base.name))
            .map_err(failed(what, &old))?;
        self.sync_folder(disk)?;
        let parent = old.parent().unwrap_or(Path::new("."));
        disk.sync_folder(parent)
            .map_err(failed("Fail to fsync AOF directory", parent))?;
        self.old = None;
        log::notice!(
            logger,
            "Successfully migrated an old-style AOF configuration ({}) into AOF directory ({}).",
            base.name,
            self.folder.display()
        );
        Ok(())
    }

    /// Creates a new incremental file under this name.
    pub(super) fn create_file(&self, disk: &Disk, name: &str) -> Done<OpenFile> {
        let path = self.folder.join(name);
        let output = disk
            .create(&path)
            .map_err(failed("Can't open the append-only file", &path))?;
        self.sync_folder(disk)?;
        let bytes = 0;
        Ok(OpenFile {
            output,
            path,
            bytes,
        })
    }

    /// Creates the next incremental file and adds it to the manifest.
    pub(super) fn add_incremental(&mut self, disk: &Disk, settings: &Settings) -> Done<OpenFile> {
        let mut manifest = self.manifest.clone();
        let name = manifest.add_incremental(&settings.append_file);
        let file = self.create_file(disk, &name)?;
        self.replace(disk, manifest)?;
        Ok(file)
    }

    /// Opens the last incremental file, or creates one if there is none.
    pub(super) fn open_last(&mut self, disk: &Disk, settings: &Settings) -> Done<OpenFile> {
        let Some(last) = self.manifest.incremental.last() else {
            return self.add_incremental(disk, settings);
        };
        let path = self.folder.join(&last.name);
        let what = "Can't open the append-only file";
        let bytes = std::fs::metadata(&path).map_err(failed(what, &path))?;
        let output = disk.append(&path).map_err(failed(what, &path))?;
        Ok(OpenFile {
            output,
            path,
            bytes: bytes.len(),
        })
    }

    /// Returns the next base and its path.
    pub(super) fn next_base(&self, settings: &Settings) -> (Entry, PathBuf) {
        let base = self.manifest.next_base(&settings.append_file, true);
        let path = self.folder.join(&base.name);
        (base, path)
    }

    /// Makes a complete base the base. `incremental` is the name of the file after it, if the manifest does not have that yet.
    /// Of the other incremental files, none or (`keeps_last`) the last one remains.
    pub(super) fn commit_base(
        &mut self,
        disk: &Disk,
        settings: &Settings,
        base: Entry,
        incremental: Option<&str>,
        keeps_last: bool,
    ) -> Done<()> {
        let mut manifest = self.manifest.clone();
        if let Some(name) = incremental {
            let added = manifest.add_incremental(&settings.append_file);
            debug_assert_eq!(added, name, "nothing else adds files");
        }
        manifest.replace_base(base, keeps_last);
        self.replace(disk, manifest)
    }

    /// Removes the files that are not needed any more.
    pub(super) fn remove_history(&mut self, disk: &Disk, logger: &Logger) {
        if self.manifest.history.is_empty() {
            return;
        }
        for entry in &self.manifest.history {
            log::notice!(
                logger,
                "Removing the history file {} in the background",
                entry.name
            );
            // A file that cannot be removed, or is gone already, does no harm.
            let _ = disk.remove(&self.folder.join(&entry.name));
        }
        let manifest = Manifest {
            history: Vec::new(),
            ..self.manifest.clone()
        };
        if let Err(error) = self.replace(disk, manifest) {
            log::warning!(logger, "{error}");
        }
    }

    /// Returns the bytes of all files that are loaded.
    pub(super) fn bytes(&self) -> u64 {
        let sizes = self.manifest.to_load().map(|entry| {
            std::fs::metadata(self.folder.join(&entry.name)).map_or(0, |data| data.len())
        });
        sizes.sum()
    }
}
