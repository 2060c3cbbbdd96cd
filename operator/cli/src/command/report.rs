//! `assay report`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::bail;
use assay_core::report::terminal;

use super::given::{advice, given};
use super::options::{CodeArgs, experiment_name};
use crate::cluster::{self, ClusterArgs, Unreachable, on};
use crate::folder::{Pages, check_reports, folder_of, is_of_run};
use crate::judge::records;
use crate::print;

/// Arguments of `assay report`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "Exit code 0: every config is Win or Neutral; 10: any Reject or Tradeoff; 11: any Invalid or Inconclusive (and no \
                        Reject or Tradeoff); 1: error; 2: wrong arguments."
)]
pub struct ReportArgs {
    /// The folder of a run, or the name of an experiment on a cluster. A folder of that name that holds plan.json is meant first
    #[arg(value_name = "NAME|FOLDER")]
    what: PathBuf,
    /// The folder for records and reports; default: results/EXPERIMENT, or for a folder none
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    codes: CodeArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub fn command(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let name = args.what.to_str().filter(|text| experiment_name(text).is_ok());
    let Some(name) = name else {
        if args.cluster != ClusterArgs::default() {
            let what = args.what.display();
            bail!("{what} is no name of an experiment, and --kubeconfig, --context and --namespace apply to no folder");
        }
        return of_folder(&args.what, args);
    };
    // Whoever has such a folder means it, unless a cluster is named.
    if args.cluster == ClusterArgs::default() && is_of_run(Path::new(name)) {
        return of_folder(Path::new(name), args);
    }
    // An experiment that was run on this machine, or fetched before, has its report in a folder of its name.
    let usual = folder_of(name, None);
    let local = [usual.as_path(), Path::new(name)].into_iter().find(|folder| is_of_run(folder));
    let out = args.out.as_deref();
    let fetched = on(&args.cluster, |cluster| async move {
        let experiment = match (cluster.find(name).await?, local) {
            (Some(experiment), _) => experiment,
            (None, Some(folder)) => bail!(
                "no experiment {name} in namespace {}. {1} has results of that name: `assay report ./{1}`",
                cluster.namespace,
                folder.display()
            ),
            (None, None) => cluster.experiment(name).await?,
        };
        let outcome = cluster::outcome(&cluster, &experiment, out, None).await?;
        Ok(ExitCode::from(args.codes.code(&outcome.report)))
    });
    let error = match fetched {
        Err(error) if error.is::<Unreachable>() => error,
        fetched => return fetched,
    };
    if let Some(folder) = local {
        print::note(format_args!("assay: no cluster answers, so this is the report of {}", folder.display()));
        return of_folder(folder, args);
    }
    let usual = usual.display();
    // Who has never heard of a cluster should not read about kubeconfigs.
    if args.cluster == ClusterArgs::default() && error.downcast_ref().is_some_and(|why: &Unreachable| !why.is_chosen) {
        if Path::new(name).exists() {
            bail!("{}", not_a_run(Path::new(name)));
        }
        bail!(
            "{usual} has no results, and there is no cluster to fetch {name} from: pass the folder of the run, or choose \
             a cluster with --context or --kubeconfig"
        );
    }
    bail!("{usual} has no results, and the cluster can't be asked: {error:#}")
}

/// The report of a folder, computed again from its records.
fn of_folder(folder: &Path, args: &ReportArgs) -> anyhow::Result<ExitCode> {
    if !is_of_run(folder) {
        bail!("{}", not_a_run(folder));
    }
    args.out.as_deref().map_or(Ok(()), |out| check_reports(out, Some(folder)))?;
    let pages = Pages::of(&records::judge(folder)?, folder);
    print::out(terminal(&pages.report, print::width()))?;
    let to = args.out.as_deref().unwrap_or(folder);
    if args.out.is_some() {
        pages.keep(to)?;
    }
    let page = to.join("report.html");
    if page.is_file() {
        print::out(format_args!("\nReport: {}; for a pull request: report.md\n", page.display()))?;
    }
    Ok(ExitCode::from(args.codes.code(&pages.report)))
}

/// What something is that has no records, and what to type instead.
fn not_a_run(path: &Path) -> String {
    if let Some(given) = given(path) {
        return advice(path, &given);
    }
    let shown = path.display();
    if path.is_file() {
        return format!("{shown} is a file: run `assay judge {shown}` if it holds results of a benchmark");
    }
    if !path.is_dir() {
        return format!("{shown} is neither a folder nor the name of an experiment");
    }
    format!("{shown} has no plan.json, so it is not the folder of a run; for other results: `assay judge {shown}`")
}
